//! Sessions that work.

use evenkeel_client::TerminalSize;
use evenkeel_client::remote::{ChannelReader, ChannelWriter};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::task::JoinSet;

use crate::env::{Env, check, check_eq};
use crate::{Failure, Outcome, pattern};

const LARGE: u64 = 100_000_000;

pub(crate) async fn exit_codes(env: Env) -> Outcome {
    let pods = env.pods()?;
    for code in [0, 3, 137, 255] {
        let output = pods.exec("web", ["exit".to_owned(), code.to_string()]).output().await?;
        check_eq(output.status.code(), code)?;
        check_eq(output.status.success(), code == 0)?;
    }
    Ok("0, 3, 137, 255".to_owned())
}

pub(crate) async fn both_outputs(env: Env) -> Outcome {
    let output = env.pods()?.exec("web", ["split"]).output().await?;
    check_eq(String::from_utf8(output.stdout)?, "out 1\nout 2\nout 3\n".to_owned())?;
    check_eq(String::from_utf8(output.stderr)?, "err 1\nerr 2\nerr 3\n".to_owned())?;
    let output = env.pods()?.exec("web", ["echo", "only", "one"]).no_stderr().output().await?;
    check_eq(String::from_utf8(output.stdout)?, "main only one\n".to_owned())?;
    Ok("stdout and stderr apart, and stdout alone".to_owned())
}

pub(crate) async fn no_output(env: Env) -> Outcome {
    let output = env.pods()?.exec("web", ["nothing"]).output().await?;
    check(output.stdout.is_empty() && output.stderr.is_empty(), "there is output")?;
    check_eq(output.status.code(), 0)?;
    Ok("both outputs end without data".to_owned())
}

pub(crate) async fn all_byte_values(env: Env) -> Outcome {
    let mut process = env.pods()?.exec("web", ["copy", "1024"]).stdin().await?;
    let sent: Vec<u8> = (0..1024_u32).map(|number| (number % 256) as u8).collect();
    let (mut stdin, mut stdout) = streams(&mut process)?;
    // Messages of one byte, too.
    let (single, rest) = sent.split_at(300);
    for byte in single {
        stdin.write_all(&[*byte]).await?;
    }
    stdin.write_all(rest).await?;
    let mut received = Vec::new();
    stdout.read_to_end(&mut received).await?;
    check(received == sent, "the bytes differ")?;
    check_eq(process.wait().await?.code(), 0)?;
    Ok("256 values, messages of one byte".to_owned())
}

pub(crate) async fn end_of_input(env: Env) -> Outcome {
    let mut process = env.pods()?.exec("web", ["cat"]).stdin().await?;
    let (mut stdin, mut stdout) = streams(&mut process)?;
    stdin.write_all(b"last words").await?;
    if !env.half_close() {
        let refused = stdin.shutdown().await;
        check(refused.is_err(), "v4 channels cannot be closed, but shutdown succeeded")?;
        let mut received = [0; 10];
        stdout.read_exact(&mut received).await?;
        return Ok("v4 cannot close stdin: shutdown fails, data arrives".to_owned());
    }
    stdin.shutdown().await?;
    let mut received = String::new();
    stdout.read_to_string(&mut received).await?;
    check_eq(received.as_str(), "last words")?;
    check_eq(process.wait().await?.code(), 0)?;
    Ok("the process reads the end, and its output arrives after it".to_owned())
}

pub(crate) async fn terminal_sizes(env: Env) -> Outcome {
    let sizes = [(80, 24), (132, 50), (65_535, 1)];
    let [first, others @ ..] = sizes;
    let size = |(width, height)| TerminalSize { width, height };
    let mut process = env.pods()?.exec("web", ["sizes", "3"]).terminal_size(size(first)).await?;
    check(process.stderr.is_none(), "a terminal has a standard error")?;
    let mut lines = BufReader::new(process.stdout.take().ok_or("no stdout")?).lines();
    check_eq(lines.next_line().await?.as_deref(), Some("true 80x24"))?;
    for other in others {
        process.resize(size(other));
        check_eq(lines.next_line().await?, Some(format!("true {}x{}", other.0, other.1)))?;
    }
    check_eq(lines.next_line().await?, None)?;
    check_eq(process.wait().await?.code(), 0)?;
    Ok("80x24, 132x50, 65535x1".to_owned())
}

pub(crate) async fn a_hundred_megabytes_in_and_out(env: Env) -> Outcome {
    let command = match env.half_close() {
        true => vec!["cat".to_owned()],
        false => vec!["copy".to_owned(), LARGE.to_string()],
    };
    let mut process = env.pods()?.exec("web", command).stdin().await?;
    let (mut stdin, mut stdout) = streams(&mut process)?;
    let sending = async {
        pattern::write(&mut stdin, LARGE).await?;
        if env.half_close() {
            stdin.shutdown().await?;
        }
        Ok::<(), Failure>(())
    };
    tokio::try_join!(sending, pattern::read_all(&mut stdout, LARGE))?;
    check_eq(process.wait().await?.code(), 0)?;
    Ok(format!("{LARGE} bytes in both directions, compared byte by byte"))
}

pub(crate) async fn a_hundred_megabytes_out(env: Env) -> Outcome {
    let mut process = env.pods()?.exec("web", ["produce".to_owned(), LARGE.to_string()]).await?;
    let mut stdout = process.stdout.take().ok_or("no stdout")?;
    pattern::read_all(&mut stdout, LARGE).await?;
    check_eq(process.wait().await?.code(), 0)?;
    Ok(format!("{LARGE} bytes, compared byte by byte"))
}

pub(crate) async fn attach(env: Env) -> Outcome {
    let mut process = env.pods()?.attach("pair").container("sidecar").stdin().await?;
    let (mut stdin, stdout) = streams(&mut process)?;
    let mut lines = stdout.lines();
    check_eq(lines.next_line().await?.as_deref(), Some("attached to sidecar"))?;
    stdin.write_all(b"hello\n").await?;
    check_eq(lines.next_line().await?.as_deref(), Some("hello"))?;
    if env.half_close() {
        stdin.shutdown().await?;
        check_eq(lines.next_line().await?, None)?;
        check_eq(process.wait().await?.code(), 0)?;
    }
    Ok("greeting, and what was sent".to_owned())
}

pub(crate) async fn containers(env: Env) -> Outcome {
    for container in ["main", "sidecar"] {
        let output = env.pods()?.exec("pair", ["echo", "a b", "c&d=é"]).container(container).output().await?;
        check_eq(String::from_utf8(output.stdout)?, format!("{container} a b c&d=é\n"))?;
    }
    Ok("either of two; arguments with spaces and signs".to_owned())
}

pub(crate) async fn fifty_sessions(env: Env) -> Outcome {
    let mut sessions = JoinSet::new();
    for number in 0..50 {
        let pods = env.pods()?;
        sessions.spawn(async move {
            let mut process = pods.exec("web", ["copy", "100000"]).stdin().await?;
            let (mut stdin, mut stdout) = streams(&mut process)?;
            let sent = vec![number; 100_000];
            let mut received = Vec::new();
            tokio::try_join!(stdin.write_all(&sent), stdout.read_to_end(&mut received))?;
            check(received == sent, "the bytes differ")?;
            check_eq(process.wait().await?.code(), 0)
        });
    }
    while let Some(session) = sessions.join_next().await {
        session??;
    }
    Ok("50 at once, 100000 bytes each".to_owned())
}

pub(crate) async fn heartbeat(env: Env) -> Outcome {
    let (mut relay, pods) = env.relayed(u64::MAX).await?;
    let mut process = pods.exec("web", ["copy", "4"]).stdin().await?;
    let (mut stdin, mut stdout) = streams(&mut process)?;
    relay.wait_for(|passed| passed.pongs > 0).await?;
    stdin.write_all(b"late").await?;
    let mut received = String::new();
    stdout.read_to_string(&mut received).await?;
    check_eq(received.as_str(), "late")?;
    check_eq(process.wait().await?.code(), 0)?;
    Ok("an idle session: the server answers the ping".to_owned())
}

/// Takes standard input and output out of a process.
pub(crate) fn streams(process: &mut evenkeel_client::RemoteProcess) -> Result<(ChannelWriter, ChannelReader), Failure> {
    Ok((process.stdin.take().ok_or("no stdin")?, process.stdout.take().ok_or("no stdout")?))
}
