//! Reconciles as functions and structs with errors of their own.

use anyhow::Context as _;

use super::*;

/// Fails once in each way.
async fn failing(log: Log) -> anyhow::Result<Next> {
    match log.note("run") {
        0 => Err(RetryAfterError::new(secs(30), "quota")).context("creating"),
        1 => Err(TerminalError::new("bad spec")).context("checking")?,
        _ => Ok(Next::done()),
    }
}

#[tokio::test(start_paused = true)]
async fn co_033_co_034_a_function_that_returns_anyhow_reconciles() {
    let server = server().await;
    let (client, log) = (server.client(), Log::new());
    create(&client, "a").await;
    let running = start(controller(&client, "co-034"), {
        let log = log.clone();
        reconcile_with(move |_: Obj<ConfigMap>, _: Context| failing(log.clone()))
    });
    pass(secs(3600)).await;
    let gaps = log.gaps();
    assert_eq!(gaps.len(), 1, "the second error is terminal");
    assert!(gaps[0] >= secs(30) && gaps[0] < secs(31), "{gaps:?}");
    touch(&client, "a", 1).await;
    settle().await;
    assert_eq!(log.len(), 3);
    running.end().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn co_033_the_last_error_has_all_causes() {
    let server = server().await;
    let client = server.client();
    create(&client, "a").await;
    let diagnostics = Diagnostics::new();
    let running = start(controller(&client, "co-033").diagnostics(&diagnostics), |_, _| async {
        "x".parse::<i32>().context("reading the port")?;
        Ok(Next::done())
    });
    pass(secs(1)).await;
    let report = diagnostics.report();
    assert!(report.to_string().contains("reading the port: invalid digit found in string"), "{report}");
    running.end().await.unwrap();
}

struct Labeller {
    log: Log,
}

impl Reconciler<ConfigMap> for Labeller {
    type Error = anyhow::Error;

    async fn reconcile(&self, map: Obj<ConfigMap>, ctx: Context) -> anyhow::Result<Next> {
        self.log.note(format!("{} {}", map.key().name(), ctx.controller()));
        ctx.lister::<ConfigMap>().context("no cache")?;
        Ok(Next::done())
    }
}

#[tokio::test(start_paused = true)]
async fn co_034_a_struct_reconciles_wherever_a_closure_does() {
    let server = server().await;
    let (client, log) = (server.client(), Log::new());
    create(&client, "a").await;
    let labeller = || reconcile_with(Labeller { log: log.clone() });
    controller(&client, "co-034-run").run(pass(secs(1)), labeller()).await.unwrap();
    controller(&client, "co-034-lead").standby().unwrap().lead(pass(secs(1)), labeller()).await.unwrap();
    let manager = crate::Manager::new(&client).controller(controller(&client, "co-034-manager"), labeller());
    manager.run(pass(secs(1))).await.unwrap();
    assert_eq!(log.take(), ["a co-034-run", "a co-034-lead", "a co-034-manager"]);
}
