use super::*;

fn deployment(replicas: i32) -> Rollout {
    Rollout { replicas: Some(replicas), generation: Some(1), status: DeploymentStatus::default() }
}

/// Returns the available replicas after each step.
fn steps(deployment: &mut Rollout) -> Vec<i32> {
    let mut steps = Vec::new();
    while let Some(status) = deployment.next_status() {
        steps.extend(status.available_replicas);
        deployment.status = status;
    }
    steps
}

#[test]
fn replicas_start_and_stop_one_by_one() {
    let mut deployment = deployment(3);
    assert_eq!(steps(&mut deployment), [1, 2, 3]);
    deployment.replicas = Some(1);
    assert_eq!(steps(&mut deployment), [2, 1]);
    deployment.replicas = Some(0);
    assert_eq!(steps(&mut deployment), [0]);
}

#[test]
fn many_replicas_start_in_few_steps() {
    let steps = steps(&mut deployment(1000));
    assert!(steps.len() < 30, "{steps:?}");
    assert_eq!(steps.last(), Some(&1000));
}

#[test]
fn a_new_generation_is_observed_without_other_changes() {
    let mut deployment = deployment(0);
    assert_eq!(steps(&mut deployment), [0]);
    deployment.generation = Some(2);
    assert_eq!(deployment.next_status().unwrap().observed_generation, Some(2));
    assert_eq!(steps(&mut deployment), [0]);
    assert_eq!(deployment.next_status(), None);
}
