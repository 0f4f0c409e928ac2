//! The whole program in simulation, with its election and certificates: crashes at every write, restarts onto old replicas, random
//! faults.

use evenkeel_sim::{ClusterState, Process, Scenario, Workload};
use serde_json::{Value, json};

use super::*;

fn site(name: &str, secret: Option<&str>) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Site", "metadata": {"name": name, "namespace": "default"},
           "spec": {"page": "<h1>hello</h1>", "replicas": 2, "image": IMAGE, "secret": secret}})
}

/// Creates and changes a Secret that a site refers to, changes and deletes sites, and deletes a child.
async fn change(workload: Workload) -> Outcome {
    let client = workload.client();
    let (sites, secrets) = (client.api::<Site>().namespace("default"), client.api::<Secret>().namespace("default"));
    let set_secret = async |token: &str| {
        secrets.apply("token", "user", &apply!(Secret { string_data: { "TOKEN": token } })).await.map(drop)
    };
    workload.pause().await;
    set_secret("one").await?;
    workload.pause().await;
    sites.patch("blue", &Patch::merge(&json!({"spec": {"page": "<h1>bye</h1>", "replicas": 3}}))).await?;
    workload.pause().await;
    match client.api::<Service>().namespace("default").delete("blue").await {
        Ok(_) => {}
        // Crashes have delayed its creation.
        Err(error) if error.is_not_found() => {}
        Err(error) => return Err(error.into()),
    }
    workload.pause().await;
    sites.delete("red").await?;
    set_secret("two").await?;
    workload.pause().await;
    sites.create(&serde_json::from_value(site("green", None))?).await?;
    Ok(())
}

/// Every site has its children, with its page and its replicas, and a status of its generation.
fn sites_are_served(state: &ClusterState) -> Result<(), String> {
    for site in state.objects("sites") {
        let name = site["metadata"]["name"].as_str().unwrap_or_default();
        let key = format!("default/{name}");
        let child = |kind: &str| {
            let child = state.object(kind, &key).ok_or_else(|| format!("{name} has no {kind}"))?;
            let is_owned = child["metadata"]["ownerReferences"][0]["uid"] == site["metadata"]["uid"];
            if is_owned { Ok(child) } else { Err(format!("the {kind} of {name} has another owner")) }
        };
        let (page, deployment) = (child("configmaps")?, child("deployments")?);
        child("services")?;
        if page["data"]["index.html"] != site["spec"]["page"] {
            return Err(format!("{name} serves {}", page["data"]));
        }
        if deployment["spec"]["replicas"] != site["spec"]["replicas"] {
            return Err(format!("{name} has {} replicas", deployment["spec"]["replicas"]));
        }
        let ready = &site["status"]["conditions"][0];
        if ready["reason"] != "RollingOut" || ready["observedGeneration"] != site["metadata"]["generation"] {
            return Err(format!("{name} reports {ready}"));
        }
    }
    Ok(())
}

fn scenario() -> Outcome<Scenario> {
    // The zone is outside of the cluster: it survives crashes.
    let zone = Zone::default();
    let published = zone.clone();
    let run = move |process: Process| {
        let zone = zone.clone();
        if process.life() == 1 {
            zone.send_replace(BTreeSet::new());
        }
        async move {
            let program = program(process.client(), zone, String::new, ["0", "0"]).await?;
            Ok(program.run(process.shutdown()).await?)
        }
    };
    Ok(Scenario::new("operator")
        .definition(serde_json::to_value(Site::crd())?)
        .object(site("red", None))
        .object(site("blue", Some("token")))
        .process("operator", run)
        .workload(change)
        .finally("sites are served", sites_are_served)
        .finally("the zone has the sites", move |state| {
            let key = |site: &Value| format!("default/{}", site["metadata"]["name"].as_str().unwrap_or_default());
            let sites: BTreeSet<String> = state.objects("sites").map(key).collect();
            let published = published.borrow();
            if *published == sites { Ok(()) } else { Err(format!("it has {published:?} instead of {sites:?}")) }
        })
        // The leader renews its Lease every two seconds, and more than 500 writes of a run are taken for a loop.
        .settle_within(Duration::from_secs(240))
        .stable_for(Duration::from_secs(120))
        // Certificates are random.
        .compare_final_state(false))
}

#[test]
fn a_crash_at_any_write_is_survived() -> Outcome {
    let report = scenario()?.crash_matrix()?;
    assert!(report.runs >= 10, "{report}");
    Ok(())
}

#[test]
fn a_restart_onto_an_old_replica_is_survived() -> Outcome {
    let report = scenario()?.stale_matrix()?;
    assert!(report.runs >= 19, "{report}");
    Ok(())
}

#[test]
fn wrk_12_random_faults_are_survived() -> Outcome {
    let report = scenario()?.check(40)?;
    assert_eq!(report.runs, 40);
    Ok(())
}
