use std::collections::VecDeque;
use std::sync::Arc;

use tokio::task::JoinSet;
use tokio::time::{Duration, Instant};

use super::fair_queue::RefusedRequests;
use super::*;

const LIMITS: QueueLimits = QueueLimits { seats: 2, per_flow: 3, total: 5, exempt: 7 };

fn waiting(arrival: Arrival) -> Ticket {
    match arrival {
        Arrival::Waiting(ticket) => ticket,
        other => panic!("{other:?}"),
    }
}

#[test]
fn flows_take_turns_however_many_requests_each_has() {
    let mut queue = FairQueue::new(QueueLimits { seats: 1, per_flow: 1000, total: 2000, exempt: 2000 });
    assert_eq!(queue.arrive("greedy", Precedence::Ordinary), Arrival::Seated);
    let mut greedy: VecDeque<Ticket> =
        (0..1000).map(|_| waiting(queue.arrive("greedy", Precedence::Ordinary))).collect();
    let polite = waiting(queue.arrive("polite", Precedence::Ordinary));
    let third = waiting(queue.arrive("third", Precedence::Ordinary));
    assert_eq!(queue.release(), greedy.pop_front(), "the flow that waits for longest is first");
    assert_eq!(queue.release(), Some(polite), "then every other flow, once");
    assert_eq!(queue.release(), Some(third));
    let polite = waiting(queue.arrive("polite", Precedence::Ordinary));
    assert_eq!(queue.release(), greedy.pop_front());
    assert_eq!(queue.release(), Some(polite));
    for ticket in greedy {
        assert_eq!(queue.release(), Some(ticket), "the requests of a flow keep their order");
    }
    assert_eq!(queue.release(), None);
    assert_eq!(queue.arrive("greedy", Precedence::Ordinary), Arrival::Seated, "all seats are free again");
}

#[test]
fn queues_are_bounded_per_flow_and_in_total() {
    let mut queue = FairQueue::new(LIMITS);
    assert_eq!(queue.arrive("a", Precedence::Ordinary), Arrival::Seated);
    assert_eq!(queue.arrive("a", Precedence::Ordinary), Arrival::Seated);
    for _ in 0..3 {
        waiting(queue.arrive("a", Precedence::Ordinary));
    }
    assert_eq!(queue.arrive("a", Precedence::Ordinary), Arrival::Refused, "the flow's queue is full");
    waiting(queue.arrive("b", Precedence::Ordinary));
    waiting(queue.arrive("c", Precedence::Ordinary));
    assert_eq!(queue.arrive("d", Precedence::Ordinary), Arrival::Refused, "all queues together are full");
    for _ in 0..2 {
        waiting(queue.arrive("root", Precedence::Exempt));
    }
    assert_eq!(queue.arrive("root", Precedence::Exempt), Arrival::Refused, "exempt requests have a limit, too");
    waiting(queue.arrive("a", Precedence::Begun));
    let refused = RefusedRequests { ordinary: 2, exempt: 1 };
    assert_eq!(queue.stats(), QueueStats { seated: 2, seats: 2, waiting: 8, limit: 7, refused });
    assert!(!queue.try_seat(), "no request overtakes the queue");
}

#[test]
fn an_abandoned_request_gets_no_seat_and_no_turn() {
    let mut queue = FairQueue::new(QueueLimits { seats: 1, ..LIMITS });
    assert_eq!(queue.arrive("a", Precedence::Ordinary), Arrival::Seated);
    let first = waiting(queue.arrive("a", Precedence::Ordinary));
    let second = waiting(queue.arrive("a", Precedence::Ordinary));
    let other = waiting(queue.arrive("b", Precedence::Ordinary));
    assert!(queue.abandon("a", first));
    assert!(!queue.abandon("a", first), "it is not queued any more");
    assert!(queue.abandon("b", other));
    assert_eq!(queue.release(), Some(second));
    assert_eq!(queue.release(), None);
    assert_eq!(queue.release_and_count(), 0);
}

impl FairQueue {
    /// Returns how many requests are seated.
    fn release_and_count(&mut self) -> usize {
        match self.arrive("x", Precedence::Ordinary) {
            Arrival::Seated => {
                self.release();
                0
            }
            _ => 1,
        }
    }
}

fn user(name: &str) -> User {
    User { name: name.into(), ..User::default() }
}

fn administrator() -> User {
    crate::listener::auth::admin()
}

#[tokio::test(start_paused = true)]
async fn apf_001_requests_beyond_the_limit_wait_and_are_refused_after_a_quarter_of_the_deadline() {
    let limits = InFlightLimits::new(1, 1);
    let seat = limits.admit(RequestClass::Read, "a", &user("a")).await.unwrap();
    assert!(seat.is_some());
    assert!(limits.admit(RequestClass::Write, "a", &user("a")).await.unwrap().is_some(), "writes count apart");
    let start = Instant::now();
    assert_eq!(limits.admit(RequestClass::Read, "b", &user("b")).await.unwrap_err(), TooManyRequests);
    assert_eq!(start.elapsed(), Duration::from_secs(15));
    drop(seat);
    assert!(limits.admit(RequestClass::Read, "b", &user("b")).await.unwrap().is_some(), "the seat is free again");
}

#[tokio::test(start_paused = true)]
async fn apf_001_masters_watches_and_probes_are_never_refused() {
    let limits = InFlightLimits::new(1, 1);
    let _seat = limits.admit(RequestClass::Read, "a", &user("a")).await.unwrap();
    let start = Instant::now();
    assert!(limits.admit(RequestClass::Read, "root", &administrator()).await.unwrap().is_none());
    assert!(limits.admit(RequestClass::LongRunning, "a", &user("a")).await.unwrap().is_none());
    assert!(limits.admit(RequestClass::Probe, "a", &user("a")).await.unwrap().is_none());
    assert_eq!(start.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn apf_001_one_user_with_many_requests_does_not_starve_another() {
    let limits = Arc::new(InFlightLimits::new(1, 0));
    let first = limits.admit(RequestClass::Read, "greedy", &user("greedy")).await.unwrap();
    let mut requests = JoinSet::new();
    for number in 0..1000 {
        let limits = Arc::clone(&limits);
        requests.spawn(async move {
            let seat = limits.admit(RequestClass::Read, "greedy", &user("greedy")).await;
            if seat.is_ok() {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            (number, seat.is_ok())
        });
    }
    let mut refused = 0;
    while refused < 1000 - QUEUE_PER_USER {
        let (_, seated) = requests.join_next().await.unwrap().unwrap();
        assert!(!seated, "the seat is taken");
        refused += 1;
    }
    let start = Instant::now();
    let polite = tokio::spawn({
        let limits = Arc::clone(&limits);
        async move { limits.admit(RequestClass::Read, "polite", &user("polite")).await.unwrap() }
    });
    tokio::task::yield_now().await;
    drop(first);
    drop(polite.await.unwrap());
    assert_eq!(
        start.elapsed(),
        Duration::from_millis(100),
        "the polite request waits for one request of the other user"
    );
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_dropped_while_it_waits_leaves_the_queue() {
    let pool = SeatPool::new(QueueLimits { seats: 1, per_flow: 1, total: 1, exempt: 1 });
    let seat = pool.acquire("a", Precedence::Ordinary).await.unwrap();
    let waited = timeout(Duration::from_secs(1), pool.acquire("a", Precedence::Ordinary)).await;
    assert!(waited.is_err());
    assert!(pool.lock().waiters.is_empty());
    let next = tokio::spawn({
        let pool = Arc::clone(&pool);
        async move { pool.acquire("b", Precedence::Ordinary).await.unwrap() }
    });
    tokio::task::yield_now().await;
    drop(seat);
    drop(next.await.unwrap());
    assert!(pool.try_acquire().is_some());
}

#[test]
fn apf_002_a_refusal_is_plain_text_with_retry_after() {
    let response = TooManyRequests.response();
    assert_eq!(response.status(), 429);
    assert_eq!(response.headers()["retry-after"], "1");
    assert_eq!(response.headers()["content-type"], "text/plain; charset=utf-8");
}
