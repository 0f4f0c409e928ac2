//! Sessions that fail, that are cut, and that are dropped.

use std::time::Duration;

use evenkeel_client::remote::ExitStatusError;
use evenkeel_client::{Error, SessionError};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt};

use crate::env::{Env, Server, check, check_eq};
use crate::exec::streams;
use crate::{Failure, Outcome, pattern};

/// More than the client and the sockets between it and the server may hold of a stream that is not read: the client
/// buffers less than 2 MB, and Linux up to 6 MB for each of the receiving sockets, and 4 MB for each of the sending ones.
pub(crate) const HELD: u64 = 40_000_000;

pub(crate) async fn command_not_found(env: Env) -> Outcome {
    let failed = env.pods()?.exec("web", ["no-such-command"]).output().await;
    status_message(failed, "executable file not found")
}

pub(crate) async fn failed_without_exit_code(env: Env) -> Outcome {
    let failed = env.pods()?.exec("web", ["fail"]).output().await;
    status_message(failed, "container is not running")
}

/// Checks for the status of a process that could not be run.
fn status_message<T>(result: Result<T, Error>, part: &str) -> Outcome {
    match result {
        Err(error @ Error::Session { source: SessionError::Process(ExitStatusError::Failed(_)), .. }) => {
            let message = error.to_string();
            check(message.contains(part), format!("another message: {message}"))?;
            Ok(format!("the server's message: {part}"))
        }
        Err(error) => Err(format!("another error: {error}").into()),
        Ok(_) => Err("it succeeded".into()),
    }
}

pub(crate) async fn pod_not_found(env: Env) -> Outcome {
    let pods = env.pods()?;
    let missing = pods.exec("none", ["cat"]).await.err().ok_or("it was opened")?;
    check(missing.is_not_found(), format!("another error: {missing}"))?;
    let missing = pods.attach("none").await.err().ok_or("it was opened")?;
    check(missing.is_not_found(), format!("another error: {missing}"))?;
    Ok("Error::Api with the Status 404".to_owned())
}

pub(crate) async fn container_not_found(env: Env) -> Outcome {
    let pods = env.pods()?;
    let missing = pods.exec("web", ["cat"]).container("none").await.err().ok_or("it was opened")?;
    check(missing.is_bad_request(), format!("another error: {missing}"))?;
    check(missing.to_string().contains("container none is not valid"), format!("another message: {missing}"))?;
    let unnamed = pods.exec("pair", ["cat"]).await.err().ok_or("it was opened")?;
    check(unnamed.to_string().contains("choose one of"), format!("another message: {unnamed}"))?;
    Ok("Error::Api with the Status 400".to_owned())
}

pub(crate) async fn connection_cut(env: Env) -> Outcome {
    let (_relay, pods) = env.relayed(10_000_000).await?;
    let mut process = pods.exec("web", ["produce", "100000000"]).await?;
    let mut stdout = process.stdout.take().ok_or("no stdout")?;
    match pattern::read_all(&mut stdout, 100_000_000).await {
        Ok(()) => return Err("all data arrived through a cut connection".into()),
        Err(error) if error.is::<std::io::Error>() => {}
        Err(error) => return Err(error),
    }
    match process.wait().await {
        Err(Error::Session { source: SessionError::Channel(_), .. }) => {}
        other => return Err(format!("another end: {other:?}").into()),
    }
    Ok("after 10 MB of 100: an error of stdout and of the process, never an end".to_owned())
}

pub(crate) async fn dropped_handle(env: Env) -> Outcome {
    let name = env.event_name("dropped");
    let mut process = env.pods()?.exec("web", ["until-closed", &name]).stdin().await?;
    let (stdin, stdout) = streams(&mut process)?;
    let mut lines = stdout.lines();
    check_eq(lines.next_line().await?.as_deref(), Some("ready"))?;
    drop(process);
    let seen = env.event(&name).await?;
    check(seen.starts_with("input ended"), seen)?;
    check(lines.next_line().await.is_err(), "the stream of a dropped process ended without an error")?;
    drop(stdin);
    Ok("the process sees the end of its input".to_owned())
}

pub(crate) async fn dropped_handle_of_a_writer(env: Env) -> Outcome {
    let (mut relay, pods) = env.relayed(u64::MAX).await?;
    let name = env.event_name("dropped-writer");
    let mut process = pods.exec("web", ["endless", &name]).await?;
    let mut stdout = process.stdout.take().ok_or("no stdout")?;
    pattern::read(&mut stdout, 1_000_000).await?;
    drop(process);
    relay.wait_for(|passed| passed.ended > 0).await?;
    end_of_writer(&env, &name).await
}

/// Checks how the command `endless` ends after the client has left.
async fn end_of_writer(env: &Env, name: &str) -> Outcome {
    match env.server {
        Server::Current => {
            // kube-apiserver may go on to read the output, and discard it: the process need not see that the client left.
            env.pods()?.exec("web", ["stop", name]).output().await?;
            env.event(name).await?;
            Ok("the connection is closed; kube-apiserver may discard the output".to_owned())
        }
        Server::Old => {
            check_eq(env.event(name).await?.as_str(), "output failed")?;
            Ok("the connection is closed; the process cannot write any more".to_owned())
        }
    }
}

pub(crate) async fn stopped_reader(env: Env) -> Outcome {
    let (mut relay, pods) = env.relayed(u64::MAX).await?;
    let name = env.event_name("stopped");
    let mut process = pods.exec("web", ["endless", &name]).await?;
    let mut stdout = process.stdout.take().ok_or("no stdout")?;
    pattern::read(&mut stdout, 1000).await?;
    // The reader stops. Everything between it and the process fills up.
    let held = settled(|| relay.passed().bytes).await;
    check(held < HELD, format!("{held} bytes were accepted without a reader"))?;
    drop((stdout, process));
    relay.wait_for(|passed| passed.ended > 0).await?;
    end_of_writer(&env, &name).await?;
    Ok(format!("the server has to wait after less than {} MB", HELD / 1_000_000))
}

/// Waits until a number stays the same for a second.
pub(crate) async fn settled(mut number: impl FnMut() -> u64) -> u64 {
    let (mut last, mut unchanged) = (number(), 0);
    while unchanged < 10 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        let now = number();
        unchanged = if now == last { unchanged + 1 } else { 0 };
        last = now;
    }
    last
}

pub(crate) async fn dropped_output(env: Env) -> Outcome {
    let mut process = env.pods()?.exec("web", ["produce", "20000000"]).await?;
    drop(process.stdout.take());
    check_eq(process.wait().await?.code(), 0)?;
    Ok("the process writes 20 MB and ends with its exit code".to_owned())
}

pub(crate) async fn input_after_the_end(env: Env) -> Outcome {
    let mut process = env.pods()?.exec("web", ["exit", "7"]).stdin().await?;
    let mut stdin = process.stdin.take().ok_or("no stdin")?;
    check_eq(process.wait().await?.code(), 7)?;
    let refused = async {
        loop {
            if let Err(error) = stdin.write_all(&[0; 1000]).await {
                return error;
            }
        }
    };
    let refused = refused.await;
    Ok::<String, Failure>(format!("a write fails: {:?}", refused.kind()))
}
