// Found by simulation. every wish has one secret: "first" has 0
//
// 0:00.000 controller starts
// 0:00.001 workload create configmaps in default: 201
// 0:00.001 cluster no more faults
// 0:00.001 controller watch configmaps: 200
// 0:00.001 controller watch secrets: 200
// 0:00.006 controller patch configmaps default/first: 200
// 0:00.006 controller crashes before it has the response
// 0:01.006 controller (life 2) starts
// 0:01.007 controller (life 2) watch configmaps: 200
// 0:01.007 controller (life 2) watch secrets: 200
// 0:01.012 controller (life 2) patch configmaps default/second: 200
// 0:01.014 controller (life 2) create secrets in default: 201
// 6:32.001 controller (life 2) watch configmaps: 200
// 8:20.001 controller (life 2) watch secrets: 200
// 14:57.001 controller (life 2) watch configmaps: 200
// 15:00.001 cluster invariant broken: every wish has one secret: "first" has 0
// 15:00.001 cluster invariant broken: same end as without faults: secrets default/first: 0 instead of 1
#[test]
fn step_forgotten_every_wish_has_one_secret() {
    let run = step_forgotten().replay("crash=controller.1.before-response").unwrap();
    assert!(run.failure.is_none(), "{}", run.trace);
}

// Found by simulation. same end as without faults: configmaps default/first differs: metadata.annotations.state is "name taken" instead of "done"
//
// 0:00.000 controller starts
// 0:00.001 workload create configmaps in default: 201
// 0:00.001 controller watch configmaps: 200
// 0:00.001 controller watch secrets: 200
// 0:00.006 controller create secrets in default: 201
// 0:00.008 controller patch configmaps default/first: lost before it is done
// 0:00.008 controller logs: failed; retrying queue="configmap" key="default/first" failures=1 retry_in=5ms error=PATCH /api/v1/namespaces/default/configmaps/first: in-process reset the connection: connection reset
// 0:00.009 controller create secrets in default: 201
// 0:00.011 controller patch configmaps default/second: 200
// 0:00.013 controller create secrets in default: 409
// 0:00.015 controller patch configmaps default/first: 200
// 5:00.000 cluster no more faults
// 5:02.001 controller watch secrets: 200
// 8:01.001 controller watch configmaps: 200
// 13:27.001 controller watch secrets: 200
// 17:26.001 controller watch configmaps: 200
// 20:00.000 cluster invariant broken: same end as without faults: configmaps default/first differs: metadata.annotations.state is "name taken" instead of "done"
#[test]
fn own_work_refused_same_end_as_without_faults() {
    let rules = [
        "drop-before-commit:user=controller,verb=patch,resource=configmaps,namespace=default,name=first,times=1",
    ];
    let run = own_work_refused().run_with_fault_rules(&rules).unwrap();
    assert!(run.failure.is_none(), "{}", run.trace);
}
