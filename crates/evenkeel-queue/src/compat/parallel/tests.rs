use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Barrier;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::*;

/// Counts how often each piece was done.
struct Tally(Vec<AtomicU32>);

impl Tally {
    fn new(pieces: usize) -> Self {
        Tally((0..pieces).map(|_| AtomicU32::new(0)).collect())
    }

    fn count(&self, piece: usize) {
        self.0[piece].fetch_add(1, Ordering::Relaxed);
    }

    fn all_once(&self) -> bool {
        self.0.iter().all(|times| times.load(Ordering::Relaxed) == 1)
    }
}

#[test]
fn pz_001_every_piece_is_done_once() {
    for (pieces, workers, chunk) in [(1000, 10, 1), (1000, 10, 10), (1000, 10, 100), (999, 10, 13), (3, 10, 7)] {
        let tally = Tally::new(pieces);
        let done = Parallel::new(workers).chunk(chunk).run(pieces, |piece| tally.count(piece));
        assert_eq!(done, pieces);
        assert!(tally.all_once(), "{pieces} pieces, {workers} workers, chunks of {chunk}");
    }
}

#[test]
fn pz_001_workers_work_at_the_same_time() {
    // No piece passes the barrier before all four have reached it.
    let barrier = Barrier::new(4);
    let done = Parallel::new(4).run(8, |_| {
        barrier.wait();
    });
    assert_eq!(done, 8);
}

#[test]
fn pz_002_without_pieces_nothing_is_done() {
    let never = |_: usize| unreachable!("there are no pieces");
    assert_eq!(Parallel::new(3).run(0, never), 0);
    assert_eq!(Parallel::new(3).chunk(100).until(&|| false).run(0, never), 0);
}

#[test]
fn pz_002_there_are_no_more_workers_than_chunks() {
    let threads = |workers, chunk, pieces| {
        let seen = Mutex::new(Vec::new());
        Parallel::new(workers).chunk(chunk).run(pieces, |_| seen.lock().unwrap().push(thread::current().id()));
        let mut seen = seen.into_inner().unwrap();
        seen.dedup();
        seen
    };
    let here = vec![thread::current().id()];
    assert_eq!(threads(100, 10, 10), here);
    assert_eq!(threads(100, usize::MAX, 7), here);
    assert_eq!(threads(1, 0, 7), here);
}

#[test]
fn pz_002_pieces_start_in_order() {
    let seen = Mutex::new(Vec::new());
    Parallel::new(1).chunk(3).run(8, |piece| seen.lock().unwrap().push(piece));
    assert_eq!(seen.into_inner().unwrap(), [0, 1, 2, 3, 4, 5, 6, 7]);

    // Each worker sees ascending numbers, and completes each chunk it starts.
    let seen = Mutex::new(Vec::new());
    Parallel::new(3).chunk(5).run(100, |piece| seen.lock().unwrap().push((thread::current().id(), piece)));
    let seen = seen.into_inner().unwrap();
    for chunk in 0..20 {
        let of_chunk: Vec<_> = seen.iter().filter(|(_, piece)| piece / 5 == chunk).collect();
        assert!(of_chunk.iter().all(|(worker, _)| *worker == of_chunk[0].0));
        assert!(of_chunk.is_sorted_by_key(|(_, piece)| piece));
    }
}

#[test]
fn pz_003_the_work_can_be_cancelled_before_each_piece_and_returns_its_count() {
    let stop = AtomicBool::new(false);
    let off = || stop.load(Ordering::Relaxed);
    let tally = Tally::new(1000);
    let done = Parallel::new(1).chunk(100).until(&off).run(1000, |piece| {
        tally.count(piece);
        stop.store(piece == 41, Ordering::Relaxed);
    });
    assert_eq!(done, 42);
    assert_eq!(tally.0.iter().filter(|times| times.load(Ordering::Relaxed) == 1).count(), 42);
    assert_eq!(Parallel::new(4).until(&|| true).run(1000, |piece| tally.count(piece)), 0);
}

#[test]
fn pz_003_the_counts_of_several_workers_are_added() {
    let begun = AtomicUsize::new(0);
    let off = || begun.load(Ordering::Relaxed) >= 500;
    let done = Parallel::new(4).until(&off).run(usize::MAX, |_| {
        begun.fetch_add(1, Ordering::Relaxed);
    });
    assert_eq!(done, begun.into_inner());
    // Pieces whose check preceded the cancellation have run.
    assert!((500..504).contains(&done), "{done}");
}

#[test]
fn pz_004_there_is_always_a_worker() {
    let tally = Tally::new(10);
    assert_eq!(Parallel::new(0).run(10, |piece| tally.count(piece)), 10);
    assert!(tally.all_once());
}

#[test]
fn pz_001_a_panic_of_a_piece_propagates_when_the_others_have_stopped() {
    // First on the thread of the caller, then on whichever thread gets the piece.
    for workers in [1, 4] {
        let (running, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let run = || {
            Parallel::new(workers).run(usize::MAX, |piece| {
                running.fetch_add(1, Ordering::SeqCst);
                if piece == 10 {
                    running.fetch_sub(1, Ordering::SeqCst);
                    resume_unwind(Box::new("piece 10"));
                }
                done.fetch_add(1, Ordering::SeqCst);
                running.fetch_sub(1, Ordering::SeqCst);
            })
        };
        let payload = catch_unwind(AssertUnwindSafe(run)).unwrap_err();
        assert_eq!(payload.downcast_ref(), Some(&"piece 10"));
        assert_eq!(running.into_inner(), 0);
        assert!(done.into_inner() >= 10);
    }
}

#[test]
fn pz_001_a_panic_on_another_thread_keeps_its_payload() {
    let here = thread::current().id();
    let barrier = Barrier::new(2);
    let run = || {
        Parallel::new(2).run(2, |_| {
            barrier.wait();
            if thread::current().id() != here {
                resume_unwind(Box::new(7_u8));
            }
        })
    };
    assert_eq!(catch_unwind(AssertUnwindSafe(run)).unwrap_err().downcast_ref(), Some(&7_u8));
}

#[tokio::test(start_paused = true)]
async fn pz_001_futures_run_as_many_at_a_time_as_there_are_workers() {
    let (running, tally) = (RefCell::new((0, 0)), Tally::new(100));
    let started = Instant::now();
    let done = Parallel::new(10).run_async(100, async |piece| {
        {
            let (now, most) = &mut *running.borrow_mut();
            *now += 1;
            *most = (*most).max(*now);
        }
        sleep(Duration::from_secs(1)).await;
        running.borrow_mut().0 -= 1;
        tally.count(piece);
    });
    assert_eq!(done.await, 100);
    assert!(tally.all_once());
    assert_eq!(running.into_inner(), (0, 10));
    // Timers are rounded up to the next millisecond.
    assert!(started.elapsed() < Duration::from_millis(10_100), "{:?}", started.elapsed());
}

#[tokio::test]
async fn pz_002_pz_004_futures_without_pieces_or_workers() {
    assert_eq!(Parallel::new(3).run_async(0, async |_| unreachable!("there are no pieces")).await, 0);
    let seen = RefCell::new(Vec::new());
    assert_eq!(Parallel::new(0).run_async(4, async |piece| seen.borrow_mut().push(piece)).await, 4);
    assert_eq!(seen.into_inner(), [0, 1, 2, 3]);
}

#[tokio::test(start_paused = true)]
async fn pz_003_started_futures_finish_when_the_work_is_cancelled() {
    let stop = AtomicBool::new(false);
    let ends = RefCell::new(Vec::new());
    let off = || stop.load(Ordering::Relaxed);
    let done = Parallel::new(4).until(&off).run_async(100, async |piece| {
        sleep(Duration::from_secs(piece as u64 + 1)).await;
        stop.store(true, Ordering::Relaxed);
        ends.borrow_mut().push(piece);
    });
    assert_eq!(done.await, 4);
    assert_eq!(ends.into_inner(), [0, 1, 2, 3]);
}

#[test]
fn pz_001_a_piece_is_polled_only_when_it_was_woken() {
    let pieces: Vec<_> = (0..3).map(|_| RefCell::new((0_u32, None::<Waker>, false))).collect();
    let mut work = pin!(Parallel::new(3).run_async(3, |piece| {
        let state = &pieces[piece];
        poll_fn(move |cx| {
            let (polls, waker, ready) = &mut *state.borrow_mut();
            *polls += 1;
            *waker = Some(cx.waker().clone());
            if *ready { Poll::Ready(()) } else { Poll::Pending }
        })
    }));
    let mut cx = Context::from_waker(Waker::noop());
    let polls = || pieces.iter().map(|piece| piece.borrow().0).collect::<Vec<_>>();
    assert!(work.as_mut().poll(&mut cx).is_pending());
    assert_eq!(polls(), [1, 1, 1]);
    let finish = |piece: usize| {
        let waker = pieces[piece].borrow_mut().1.clone().unwrap();
        pieces[piece].borrow_mut().2 = true;
        waker.wake_by_ref();
        waker.wake();
    };
    // Two wakes cause one poll.
    let waker = pieces[2].borrow().1.clone().unwrap();
    waker.wake_by_ref();
    waker.wake();
    finish(1);
    assert!(work.as_mut().poll(&mut cx).is_pending());
    assert_eq!(polls(), [1, 2, 2]);
    // A wake without a piece.
    finish(1);
    assert!(work.as_mut().poll(&mut cx).is_pending());
    finish(2);
    finish(0);
    assert_eq!(work.as_mut().poll(&mut cx), Poll::Ready(3));
    assert_eq!(polls(), [2, 2, 3]);
}

#[test]
fn pz_001_a_self_waking_piece_does_not_delay_the_start_of_others() {
    let second_began = std::cell::Cell::new(false);
    let mut work = pin!(Parallel::new(2).run_async(2, |piece| {
        let second_began = &second_began;
        poll_fn(move |cx| {
            second_began.set(second_began.get() || piece == 1);
            cx.waker().wake_by_ref();
            if second_began.get() { Poll::Ready(()) } else { Poll::Pending }
        })
    }));
    let mut cx = Context::from_waker(Waker::noop());
    assert_eq!(work.as_mut().poll(&mut cx), Poll::Ready(2));
}

#[test]
fn pz_001_many_pieces_that_never_wait_yield_to_other_tasks() {
    let done = std::cell::Cell::new(0);
    let mut work = pin!(Parallel::new(8).run_async(1000, async |_| done.set(done.get() + 1)));
    let mut cx = Context::from_waker(Waker::noop());
    assert!(work.as_mut().poll(&mut cx).is_pending());
    assert_eq!(done.get(), POLLS_IN_A_ROW);
    let polls = (0..).find(|_| work.as_mut().poll(&mut cx).is_ready());
    assert_eq!((done.get(), polls), (1000, Some(14)));
}

#[test]
fn pz_003_dropping_the_future_drops_started_pieces() {
    let held = Arc::new(());
    let run = |held: &Arc<()>| {
        let held = Arc::clone(held);
        Parallel::new(3).run_async(10, move |_| {
            let held = Arc::clone(&held);
            async move {
                std::future::pending::<()>().await;
                drop(held);
            }
        })
    };
    let mut work = Box::pin(run(&held));
    assert!(work.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    assert_eq!(Arc::strong_count(&held), 1 + 1 + 3);
    drop(work);
    assert_eq!(Arc::strong_count(&held), 1);
}

#[test]
fn the_future_can_be_sent_to_another_thread() {
    fn is_send<T: Send>(_: &T) {}
    let off = || false;
    is_send(&Parallel::new(1).until(&off).run_async(1, |_| std::future::ready(())));
}
