use std::sync::mpsc;
use std::task::Wake;
use std::thread;
use std::time::Duration;

use super::*;

struct FixedEnv;

impl Env for FixedEnv {
    fn wall(&self) -> Timestamp {
        Timestamp::UNIX_EPOCH
    }

    fn monotonic(&self) -> Duration {
        Duration::ZERO
    }

    fn random(&self) -> u64 {
        0
    }
}

fn log() -> ContainerLog {
    PodLogs::new(Arc::new(FixedEnv)).container("default", "a", "c")
}

fn texts(part: &LogPart) -> Vec<&str> {
    part.lines.iter().map(|line| line.text.as_str()).collect()
}

fn poll(log: &ContainerLog, from: LogPosition) -> Poll<Option<LogPart>> {
    log.poll_read(from, &mut Context::from_waker(Waker::noop()))
}

fn ready(log: &ContainerLog, from: LogPosition) -> LogPart {
    match poll(log, from) {
        Poll::Ready(Some(part)) => part,
        _ => panic!("there is nothing to read"),
    }
}

#[test]
fn a_follower_reads_its_run_to_the_end_when_the_container_restarts() {
    let log = log();
    log.write("one\ntwo\n");
    let start = log.read(false).unwrap();
    assert_eq!(texts(&start), ["one\n", "two\n"]);
    assert!(poll(&log, start.next).is_pending());
    log.write("three\nhalf");
    log.restart();
    log.write("first of the next run\n");
    let rest = ready(&log, start.next);
    assert_eq!((texts(&rest), rest.ended), (vec!["three\n", "half"], true));
    let end = ready(&log, rest.next);
    assert_eq!((texts(&end), end.ended), (vec![], true));
    assert_eq!(texts(&log.read(false).unwrap()), ["first of the next run\n"]);
    assert_eq!(texts(&log.read(true).unwrap()), ["one\n", "two\n", "three\n", "half"]);
    log.restart();
    let dropped = ready(&log, start.next);
    assert_eq!((texts(&dropped), dropped.ended), (vec![], true), "the run is not kept any more");
}

/// Wakes a thread through a channel.
struct Signal(Mutex<mpsc::Sender<()>>);

impl Wake for Signal {
    fn wake(self: Arc<Self>) {
        let _ = self.0.lock().unwrap().send(());
    }
}

#[test]
fn a_line_written_during_a_poll_wakes_the_follower() {
    const LINES: u64 = 20_000;
    let log = log();
    log.write("0\n");
    let mut next = log.read(false).unwrap().next;
    let writer = log.clone();
    // The writer waits for each line to be read, so that every line is written while the reader polls or sleeps.
    let (read, is_read) = mpsc::sync_channel::<()>(0);
    let writer = thread::spawn(move || {
        for _ in 0..LINES {
            writer.write("x\n");
            if is_read.recv().is_err() {
                return;
            }
        }
    });
    let (signal, woken) = mpsc::channel();
    let waker = Waker::from(Arc::new(Signal(Mutex::new(signal))));
    for line in 0..LINES {
        loop {
            match log.poll_read(next, &mut Context::from_waker(&waker)) {
                Poll::Ready(part) => {
                    next = part.unwrap().next;
                    break;
                }
                Poll::Pending => woken
                    .recv_timeout(Duration::from_secs(60))
                    .unwrap_or_else(|_| panic!("the write of line {line} woke no reader")),
            }
        }
        read.send(()).unwrap();
    }
    writer.join().unwrap();
}
