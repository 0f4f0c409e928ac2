use super::*;

/// A connection or a waiter by name. Capital letters are alive.
#[derive(Clone, Debug, PartialEq)]
struct Named(char);

impl Alive for Named {
    fn is_alive(&self) -> bool {
        self.0.is_uppercase()
    }
}

type TestBook = PoolState<Named, Named, Named>;

/// Formats the actions: `W:A1` for waiter W that gets all of connection 1 named A, `W:a1` for a stream of it.
fn described(todo: Todo<Named, Named, Named>) -> (Vec<String>, usize) {
    let grants = todo.grants.into_iter().map(|(waiter, grant)| match grant {
        Grant::Http1(id, one) => format!("{}:all of {}{id}", waiter.0, one.0),
        Grant::Http2(id, many) => format!("{}:stream of {}{id}", waiter.0, many.0),
    });
    (grants.collect(), todo.dials)
}

fn nothing() -> (Vec<String>, usize) {
    (Vec::new(), 0)
}

fn grants<const N: usize>(grants: [&str; N], dials: usize) -> (Vec<String>, usize) {
    (grants.map(str::to_owned).to_vec(), dials)
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[test]
fn waiters_share_one_dial_until_the_protocol_is_known() {
    let now = Instant::now();
    let mut state = TestBook::new(25, 100);
    assert!(state.acquire().is_none());
    assert_eq!(described(state.wait(Named('U'))), grants([], 1));
    assert_eq!(described(state.wait(Named('V'))), nothing());
    assert_eq!(described(state.wait(Named('W'))), nothing());
    // The first request proceeds; the others follow when the server has sent its stream limit.
    assert_eq!(described(state.dialed_http2(1, Named('A'), now)), grants(["U:stream of A1"], 0));
    assert_eq!(described(state.wait(Named('X'))), nothing());
    assert_eq!(described(state.allow(1, 3)), grants(["V:stream of A1", "W:stream of A1"], 1));
    // One request waits for another connection; a freed stream serves it as well.
    assert_eq!(described(state.stream_done(1, now)), grants(["X:stream of A1"], 0));
    assert_eq!(described(state.dialed_http2(2, Named('B'), now)), nothing());
}

#[test]
fn one_dial_each_where_connections_cannot_be_shared() {
    let now = Instant::now();
    let mut state = TestBook::new(25, 100);
    assert_eq!(described(state.wait(Named('U'))).1, 1);
    assert_eq!(described(state.wait(Named('V'))).1, 0);
    assert_eq!(described(state.wait(Named('W'))).1, 0);
    assert_eq!(described(state.dialed_http1(1, Named('A'), now)), grants(["U:all of A1"], 2));
    assert_eq!(described(state.wait(Named('X'))).1, 1);
    assert_eq!(described(state.give_back(1, Named('A'), now)), grants(["V:all of A1"], 0));
    assert_eq!(described(state.dialed_http1(2, Named('B'), now)), grants(["W:all of B2"], 0));
    // A failed dial fails one request.
    let (failed, todo) = state.dial_failed();
    assert_eq!((failed, described(todo)), (vec![Named('X')], nothing()));
}

#[test]
fn a_cancelled_waiter_gets_no_connection_and_blocks_no_other() {
    let now = Instant::now();
    let mut state = TestBook::new(25, 100);
    for waiter in ['u', 'v', 'W', 'x'] {
        let _ = state.wait(Named(waiter));
    }
    assert_eq!(described(state.dialed_http1(1, Named('A'), now)), grants(["W:all of A1"], 0));
    // No request is left for it.
    assert_eq!(described(state.give_back(1, Named('A'), now)), nothing());
    assert!(matches!(state.acquire(), Some(Grant::Http1(1, Named('A')))));
}

#[test]
fn the_newest_idle_connection_is_used_and_the_oldest_is_evicted() {
    let now = Instant::now();
    let mut state = TestBook::new(2, 100);
    for (id, name) in [(1, 'A'), (2, 'B'), (3, 'C'), (4, 'd')] {
        assert_eq!(described(state.dialed_http1(id, Named(name), now)), nothing());
    }
    // D is dead; A and B exceed the limit.
    assert!(matches!(state.acquire(), Some(Grant::Http1(3, _))));
    assert!(state.acquire().is_none());
}

#[test]
fn a_failed_dial_fails_all_waiters_of_its_connection() {
    let mut state = TestBook::new(25, 100);
    let _ = state.wait(Named('U'));
    let _ = state.wait(Named('V'));
    let (failed, todo) = state.dial_failed();
    assert_eq!((failed.len(), described(todo)), (2, nothing()));
    assert!(state.is_empty());
    // The next request dials again.
    assert_eq!(described(state.wait(Named('W'))).1, 1);
}

#[test]
fn a_connection_lost_before_any_response_is_replaced() {
    let now = Instant::now();
    let mut state = TestBook::new(25, 100);
    let _ = state.wait(Named('U'));
    let _ = state.wait(Named('V'));
    assert_eq!(described(state.dialed_http2(1, Named('A'), now)), grants(["U:stream of A1"], 0));
    assert_eq!(described(state.lost(1)), grants([], 1));
    // A stream of a lost connection is ignored.
    assert_eq!(described(state.stream_done(1, now)), nothing());
}

#[test]
fn a_server_that_allows_fewer_streams_later_gets_no_more() {
    let now = Instant::now();
    let mut state = TestBook::new(25, 100);
    let _ = state.dialed_http2(1, Named('A'), now);
    let _ = state.allow(1, 10);
    assert!(state.acquire().is_some() && state.acquire().is_some());
    let _ = state.allow(1, 0);
    assert!(state.acquire().is_none());
    assert_eq!(described(state.wait(Named('U'))).1, 1);
    let _ = state.stream_done(1, now);
    assert_eq!(described(state.allow(1, 10)), grants(["U:stream of A1"], 0));
}

#[test]
fn idle_connections_expire_and_used_ones_do_not() {
    let begin = Instant::now();
    let mut state = TestBook::new(25, 100);
    let _ = state.dialed_http1(1, Named('A'), begin);
    let _ = state.dialed_http2(2, Named('B'), begin);
    let _ = state.allow(2, 100);
    let later = begin + seconds(60);
    assert_eq!(state.expire(1, later, seconds(90)), Expiry::Later(seconds(30)));
    assert_eq!(state.expire(2, later, seconds(90)), Expiry::Later(seconds(30)));
    assert!(matches!(state.acquire(), Some(Grant::Http2(2, _))));
    let much_later = begin + seconds(1_000);
    assert_eq!(state.expire(1, much_later, seconds(90)), Expiry::Expired);
    assert_eq!(state.expire(2, much_later, seconds(90)), Expiry::Later(seconds(90)));
    let _ = state.stream_done(2, much_later);
    assert_eq!(state.expire(2, much_later + seconds(90), seconds(90)), Expiry::Expired);
    assert!(state.acquire().is_none());
}

#[test]
fn trn_014_a_retired_connection_is_neither_used_nor_returned() {
    let now = Instant::now();
    let mut state = TestBook::new(25, 100);
    let _ = state.dialed_http1(1, Named('A'), now);
    let _ = state.dialed_http1(2, Named('B'), now);
    assert!(matches!(state.acquire(), Some(Grant::Http1(2, _))));
    // Two connections exist, one of them in use.
    assert_eq!(described(state.retire(3).1), nothing());
    assert_eq!(described(state.give_back(2, Named('B'), now)), nothing());
    assert!(state.acquire().is_none());
}

/// For any sequence of events, the state overbooks no connection, serves no request twice, and leaves no request
/// waiting without a pending connection.
mod any_history {
    use std::cell::Cell;
    use std::collections::BTreeMap;
    use std::rc::Rc;

    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    enum Event {
        Ask,
        GiveUp(usize),
        DialedOne,
        DialedMany,
        DialFailed,
        Free(usize),
        Allow(usize, usize),
        Lose(usize),
        Retire,
    }

    fn event() -> impl Strategy<Value = Event> {
        prop_oneof![
            6 => Just(Event::Ask),
            1 => any::<usize>().prop_map(Event::GiveUp),
            2 => Just(Event::DialedOne),
            2 => Just(Event::DialedMany),
            1 => Just(Event::DialFailed),
            5 => any::<usize>().prop_map(Event::Free),
            2 => (any::<usize>(), 0..6_usize).prop_map(|(which, streams)| Event::Allow(which, streams)),
            1 => any::<usize>().prop_map(Event::Lose),
            1 => Just(Event::Retire),
        ]
    }

    #[derive(Clone)]
    struct Connection;

    impl Alive for Connection {
        fn is_alive(&self) -> bool {
            true
        }
    }

    struct Waiting(usize, Rc<Cell<bool>>);

    impl Alive for Waiting {
        fn is_alive(&self) -> bool {
            self.1.get()
        }
    }

    const MAX_STREAMS: usize = 4;

    struct Model {
        state: PoolState<Connection, Connection, Waiting>,
        now: Instant,
        last_id: Id,
        dials: usize,
        next_waiter: usize,
        /// The waiters that were not cancelled.
        waiting: BTreeMap<usize, Rc<Cell<bool>>>,
        /// Connections by id: the server's stream limit, if they are shared.
        open: BTreeMap<Id, Option<Option<usize>>>,
        /// Connections in use, as often as they are.
        used: Vec<Id>,
        retired: Id,
    }

    impl Model {
        fn granted(&mut self, grant: &Grant<Connection, Connection>) {
            let (Grant::Http1(id, _) | Grant::Http2(id, _)) = grant;
            let streams = self.used.iter().filter(|used| *used == id).count();
            let room = match self.open[id] {
                Some(allowed) => allowed.map_or(1, |allowed| allowed.min(MAX_STREAMS)),
                None => 1,
            };
            assert!(streams < room, "{id} is overbooked");
            assert!(*id > self.retired, "{id} was retired");
            self.used.push(*id);
        }

        fn carry_out(&mut self, todo: Todo<Connection, Connection, Waiting>) {
            self.dials += todo.dials;
            for (waiter, grant) in todo.grants {
                self.waiting.remove(&waiter.0).expect("served once, and only who waits");
                self.granted(&grant);
            }
        }

        fn happens(&mut self, event: Event) {
            let pick = |which: usize, ids: Vec<Id>| (!ids.is_empty()).then(|| ids[which % ids.len()]);
            let todo = match event {
                Event::Ask => match self.state.acquire() {
                    Some(grant) => return self.granted(&grant),
                    None => {
                        let alive = Rc::new(Cell::new(true));
                        self.next_waiter += 1;
                        self.waiting.insert(self.next_waiter, Rc::clone(&alive));
                        self.state.wait(Waiting(self.next_waiter, alive))
                    }
                },
                Event::GiveUp(which) => {
                    let who = self.waiting.keys().copied().nth(which % self.waiting.len().max(1));
                    if let Some(alive) = who.and_then(|who| self.waiting.remove(&who)) {
                        alive.set(false);
                    }
                    return;
                }
                Event::DialedOne | Event::DialedMany | Event::DialFailed if self.dials == 0 => return,
                Event::DialedOne => {
                    self.dials -= 1;
                    self.last_id += 1;
                    self.open.insert(self.last_id, None);
                    self.state.dialed_http1(self.last_id, Connection, self.now)
                }
                Event::DialedMany => {
                    self.dials -= 1;
                    self.last_id += 1;
                    self.open.insert(self.last_id, Some(None));
                    self.state.dialed_http2(self.last_id, Connection, self.now)
                }
                Event::DialFailed => {
                    self.dials -= 1;
                    let (failed, todo) = self.state.dial_failed();
                    for waiter in failed {
                        assert!(self.waiting.remove(&waiter.0).is_some() || !waiter.is_alive());
                    }
                    todo
                }
                Event::Free(which) => {
                    let Some(id) = pick(which, self.used.clone()) else { return };
                    let at = self.used.iter().position(|used| *used == id).unwrap();
                    self.used.remove(at);
                    match self.open.get(&id) {
                        Some(None) => self.state.give_back(id, Connection, self.now),
                        _ => self.state.stream_done(id, self.now),
                    }
                }
                Event::Allow(which, streams) => {
                    let shared = self.open.iter().filter(|(_, kind)| kind.is_some()).map(|(id, _)| *id).collect();
                    let Some(id) = pick(which, shared) else { return };
                    self.open.insert(id, Some(Some(streams)));
                    self.state.allow(id, streams)
                }
                Event::Lose(which) => {
                    let Some(id) = pick(which, self.open.keys().copied().collect()) else { return };
                    self.open.remove(&id);
                    self.used.retain(|used| *used != id);
                    self.state.lost(id)
                }
                Event::Retire => {
                    self.retired = self.last_id;
                    self.state.retire(self.last_id).1
                }
            };
            self.carry_out(todo);
        }

        /// Every waiter has a cause to wait for: a pending dial, or the settings of a server.
        fn check(&self) {
            let young = self.open.iter().any(|(id, kind)| *id > self.retired && *kind == Some(None));
            assert!(self.waiting.is_empty() || self.dials > 0 || young, "{} wait for nothing", self.waiting.len());
            assert_eq!(self.dials, self.state.dialing);
            assert_eq!(self.open.len(), self.state.open);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]

        #[test]
        fn the_pool_state_matches_the_model(events in proptest::collection::vec(event(), 0..100)) {
            let mut model = Model {
                state: PoolState::new(3, MAX_STREAMS),
                now: Instant::now(),
                last_id: 0,
                dials: 0,
                next_waiter: 0,
                waiting: BTreeMap::new(),
                open: BTreeMap::new(),
                used: Vec::new(),
                retired: 0,
            };
            for event in events {
                model.happens(event);
                model.check();
            }
        }
    }
}

#[test]
fn trn_014_waiters_of_a_retired_connection_get_a_new_one() {
    let now = Instant::now();
    let mut state = TestBook::new(25, 100);
    let _ = state.wait(Named('U'));
    let _ = state.wait(Named('V'));
    assert_eq!(described(state.dialed_http2(1, Named('A'), now)), grants(["U:stream of A1"], 0));
    assert_eq!(described(state.retire(1).1), grants([], 1));
    assert_eq!(described(state.dialed_http2(2, Named('B'), now)), grants(["V:stream of B2"], 0));
}
