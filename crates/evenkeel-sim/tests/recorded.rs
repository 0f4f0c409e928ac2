//! Runs that are looked at, written out as tests, and repeated by other code.
#![allow(clippy::unwrap_used, reason = "a panic fails the test")]

use std::sync::OnceLock;

use evenkeel::k8s_openapi::api::core::v1::{ConfigMap, Secret};
use evenkeel::prelude::*;
use evenkeel_sim::{Failed, Fault, Process, ReplayError, Scenario};
use serde_json::{Value, json};

/// Makes a Secret for every ConfigMap, and takes AlreadyExists for a fault of the user: it does not know its own work.
async fn refuse_own_work(map: Obj<ConfigMap>, ctx: Context) -> Result<Next, ReconcileError> {
    let annotations = map.typed()?.metadata.annotations.clone().unwrap_or_default();
    if annotations.contains_key("state") {
        return Ok(Next::done());
    }
    let mut secret = Secret::default();
    secret.metadata.name = Some(map.key().name().to_owned());
    let state = match ctx.api::<Secret>().namespace("default").create(&secret).await {
        Ok(_) => "done",
        Err(error) if error.is_already_exists() => "name taken",
        Err(error) => return Err(error.into()),
    };
    let patch = json!({"metadata": {"annotations": {"state": state}}});
    ctx.api::<ConfigMap>().namespace("default").patch(map.key().name(), &Patch::merge(&patch)).await?;
    Ok(Next::done())
}

fn scenario() -> Scenario {
    Scenario::new("own-work")
        .object(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "blue", "namespace": "default"}}))
        .process("controller", |process: Process| async move {
            let controller = Controller::<ConfigMap>::new(process.client());
            Ok(controller.run(process.shutdown(), refuse_own_work).await?)
        })
}

const FAULTS: [Fault; 2] = [Fault::ResponseLost, Fault::WriteLost];

/// A failure of which only requests are the cause.
fn lost_response() -> &'static Failed {
    static FAILED: OnceLock<Failed> = OnceLock::new();
    FAILED.get_or_init(|| scenario().faults(FAULTS).check(2_000).unwrap_err())
}

fn json_of(run: &evenkeel_sim::Run) -> Value {
    serde_json::from_str(&run.to_json()).unwrap()
}

#[test]
fn a_recorded_run_has_every_step_and_what_it_changed() {
    let failed = scenario().crash_matrix().unwrap_err();
    let run = json_of(failed.run());
    let lines = run["lines"].as_array().unwrap();
    assert_eq!(lines.len(), failed.run().trace.lines().len());
    let line_of = |what: &str| lines.iter().position(|line| line["what"] == what).unwrap();

    let create = line_of("create secrets in default: 201");
    let created: Vec<&Value> = run["changes"].as_array().unwrap().iter().filter(|it| it["line"] == create).collect();
    assert_eq!(created.len(), 1, "{created:?}");
    assert_eq!((&created[0]["resource"], &created[0]["key"]), (&json!("secrets"), &json!("default/blue")));
    assert_eq!(created[0]["object"]["metadata"]["managedFields"], Value::Null);

    let second = &lines[line_of("starts") + 1..].iter().find(|line| line["what"] == "starts").unwrap();
    assert_eq!((&second["process"], &second["life"]), (&json!("controller"), &json!(2)));
    assert!(lines.windows(2).all(|pair| pair[0]["step"].as_u64() <= pair[1]["step"].as_u64()));
    let failing = run["failure"]["line"].as_u64().unwrap() as usize;
    assert!(lines[failing]["what"].as_str().unwrap().starts_with("invariant broken: same end"));
    assert_eq!(run["replay"], failed.replay_line());
}

#[test]
fn recording_a_run_does_not_change_it() {
    for seed in [1_u64, 5, 9] {
        let scenario = scenario().compare_final_state(false);
        let plain = scenario.check_from(seed, 1).unwrap();
        let recorded = scenario.replay(&format!("seed={seed:#x}")).unwrap();
        assert_eq!(
            (plain.steps, plain.requests, plain.simulated),
            (recorded.steps, recorded.requests, recorded.simulated)
        );
    }
    let failed = lost_response();
    let again = scenario().faults(FAULTS).replay(&failed.replay_line()).unwrap();
    assert_eq!(again.trace.hash(), failed.run().trace.hash());
}

#[test]
fn a_page_needs_no_other_file_and_contains_no_markup_of_the_run() {
    let scenario = Scenario::new("markup").process("p", |process: Process| async move {
        process.note("</script><img src=x>");
        process.shutdown().await;
        Ok(())
    });
    let run = scenario.replay("tape=plain").unwrap();
    let page = run.to_html();
    assert!(!page.contains("</script><img") && page.contains("\\u003c/script>\\u003cimg src=x>"));
    assert!(!page.contains("{{") && !page.contains("import {") && !page.contains("export "), "a part is missing");
    for address in ["http:", "https:", "src=\"/", "href=\"/"] {
        let others = page.matches(address).count()
            - page.matches("http://www.w3.org/").count() * usize::from(address == "http:");
        assert_eq!(others, 0, "{address}");
    }
}

#[test]
fn rpl_6_the_timeline_is_in_the_trace_event_format() {
    let failed = scenario().crash_matrix().unwrap_err();
    let trace: Value = serde_json::from_str(&failed.run().to_trace_events()).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    let of = |phase: &str| events.iter().filter(|event| event["ph"] == phase).collect::<Vec<_>>();
    assert_eq!(of("i").len(), failed.run().trace.lines().len());
    let names: Vec<_> = of("M").iter().map(|event| event["args"]["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["cluster", "controller"]);
    let lives: Vec<_> = of("X").iter().map(|event| event["name"].as_str().unwrap()).collect();
    assert_eq!(lives, ["life 1", "life 2"]);
}

#[test]
fn rpl_2_a_tape_of_other_code_diverges() {
    let failed = lost_response();
    let line = failed.replay_line();
    assert!(scenario().faults(FAULTS).replay(&line).unwrap().failure.is_some());

    // One request more before the fault.
    let other = Scenario::new("own-work")
        .object(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "blue", "namespace": "default"}}));
    let other = other.faults(FAULTS).process("controller", |process: Process| async move {
        process.client().core_v1().secrets("default").list(&ListParams::default()).await?;
        let controller = Controller::<ConfigMap>::new(process.client());
        Ok(controller.run(process.shutdown(), refuse_own_work).await?)
    });
    let diverged = other.replay(&line).unwrap_err();
    assert!(matches!(diverged, ReplayError::Diverged { .. }), "{diverged}");
    assert!(diverged.to_string().starts_with("diverged by step "), "{diverged}");

    // Not a tape of this version.
    let (tape, _) = line.split_once('@').unwrap();
    assert!(matches!(scenario().replay(tape), Err(ReplayError::Version)));
    assert!(matches!(scenario().replay(&format!("{tape}@v0.1.2")), Err(ReplayError::Version)));
}

#[test]
fn rpl_2_code_that_is_mended_after_the_fault_replays_the_tape() {
    let line = lost_response().replay_line();
    let mended = scenario().faults(FAULTS).process("idle", |process: Process| async move {
        process.shutdown().await;
        Ok(())
    });
    // Another process is other code from the start.
    assert!(matches!(mended.replay(&line), Err(ReplayError::Diverged { .. })));
    let mended = Scenario::new("own-work")
        .object(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "blue", "namespace": "default"}}))
        .faults(FAULTS)
        .process("controller", |process: Process| async move {
            let reconcile = |map: Obj<ConfigMap>, ctx: Context| async move {
                let mut secret = Secret::default();
                secret.metadata.name = Some(map.key().name().to_owned());
                let annotations = map.typed()?.metadata.annotations.clone().unwrap_or_default();
                if !annotations.contains_key("state") {
                    match ctx.api::<Secret>().namespace("default").create(&secret).await {
                        Err(error) if !error.is_already_exists() => return Err(error.into()),
                        _ => {}
                    }
                    let patch = Patch::merge(&json!({"metadata": {"annotations": {"state": "done"}}}));
                    ctx.api::<ConfigMap>().namespace("default").patch(map.key().name(), &patch).await?;
                }
                Ok::<_, ReconcileError>(Next::done())
            };
            Ok(Controller::<ConfigMap>::new(process.client()).run(process.shutdown(), reconcile).await?)
        });
    assert_eq!(mended.replay(&line).unwrap().failure, None);
}

#[test]
fn rpl_3_a_failure_is_shrunk_to_what_causes_it() {
    let failed = lost_response();
    let line = failed.replay_line();
    let (tape, _) = line.split_once("tape=").unwrap().1.split_once('@').unwrap();
    let choices: Vec<&str> = tape.split('.').collect();
    assert!(choices.len() <= 4, "{line}");
    assert_eq!(failed.run().faults.values().sum::<u64>(), 1, "one lost response is enough: {}", failed.run().trace);
}

#[test]
fn rpl_4_requests_that_fail_become_fault_rules() {
    let failed = lost_response();
    let test = failed.regression_test("own_work()");
    assert!(test.contains("fn own_work_same_end_as_without_faults() {"), "{test}");
    assert!(
        test.contains("\"commit-then-drop:user=controller,verb=create,resource=secrets,namespace=default,times=1\""),
        "{test}"
    );
    let rule = "commit-then-drop:user=controller,verb=create,resource=secrets,times=1";
    let failure = scenario().run_with_fault_rules(&[rule]).unwrap().failure.unwrap();
    assert_eq!(failure.invariant, failed.failure().invariant);
    assert!(scenario().run_with_fault_rules(&["commit"]).is_err());
    assert_eq!(scenario().run_with_fault_rules(&["drop:user=controller,verb=create,times=1"]).unwrap().failure, None);
}
