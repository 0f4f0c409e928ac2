use super::*;

/// A connection or a waiter by name. Capital letters are alive.
#[derive(Clone, Debug, PartialEq)]
struct Named(char);

impl Alive for Named {
    fn is_alive(&self) -> bool {
        self.0.is_uppercase()
    }
}

type TestBook = Book<Named, Named, Named>;

/// What is to be done, to be read: `W:A1` for waiter W who gets all of connection 1 named A, `W:a1` for a stream of it.
fn told(todo: Todo<Named, Named, Named>) -> (Vec<String>, usize) {
    let grants = todo.grants.into_iter().map(|(waiter, grant)| match grant {
        Grant::One(id, one) => format!("{}:all of {}{id}", waiter.0, one.0),
        Grant::Many(id, many) => format!("{}:stream of {}{id}", waiter.0, many.0),
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
fn one_dial_for_all_who_wait_while_nobody_knows_what_is_spoken() {
    let now = Instant::now();
    let mut book = TestBook::new(25, 100);
    assert!(book.ask().is_none());
    assert_eq!(told(book.wait(Named('U'))), grants([], 1));
    assert_eq!(told(book.wait(Named('V'))), nothing());
    assert_eq!(told(book.wait(Named('W'))), nothing());
    // The first goes ahead; the others follow when the server has said how many may.
    assert_eq!(told(book.dialed_many(1, Named('A'), now)), grants(["U:stream of A1"], 0));
    assert_eq!(told(book.wait(Named('X'))), nothing());
    assert_eq!(told(book.allow(1, 3)), grants(["V:stream of A1", "W:stream of A1"], 1));
    // One is waiting for another connection; a stream that ends serves as well.
    assert_eq!(told(book.stream_done(1, now)), grants(["X:stream of A1"], 0));
    assert_eq!(told(book.dialed_many(2, Named('B'), now)), nothing());
}

#[test]
fn one_dial_each_where_connections_cannot_be_shared() {
    let now = Instant::now();
    let mut book = TestBook::new(25, 100);
    assert_eq!(told(book.wait(Named('U'))).1, 1);
    assert_eq!(told(book.wait(Named('V'))).1, 0);
    assert_eq!(told(book.wait(Named('W'))).1, 0);
    assert_eq!(told(book.dialed_one(1, Named('A'), now)), grants(["U:all of A1"], 2));
    assert_eq!(told(book.wait(Named('X'))).1, 1);
    assert_eq!(told(book.give_back(1, Named('A'), now)), grants(["V:all of A1"], 0));
    assert_eq!(told(book.dialed_one(2, Named('B'), now)), grants(["W:all of B2"], 0));
    // A connection that cannot be made is the misfortune of one.
    let (bereft, todo) = book.dial_failed();
    assert_eq!((bereft, told(todo)), (vec![Named('X')], nothing()));
}

#[test]
fn who_has_given_up_gets_nothing_and_holds_up_nobody() {
    let now = Instant::now();
    let mut book = TestBook::new(25, 100);
    for waiter in ['u', 'v', 'W', 'x'] {
        let _ = book.wait(Named(waiter));
    }
    assert_eq!(told(book.dialed_one(1, Named('A'), now)), grants(["W:all of A1"], 0));
    // Nobody is left for it.
    assert_eq!(told(book.give_back(1, Named('A'), now)), nothing());
    assert!(matches!(book.ask(), Some(Grant::One(1, Named('A')))));
}

#[test]
fn the_youngest_idle_connection_is_used_and_the_oldest_goes() {
    let now = Instant::now();
    let mut book = TestBook::new(2, 100);
    for (id, name) in [(1, 'A'), (2, 'B'), (3, 'C'), (4, 'd')] {
        assert_eq!(told(book.dialed_one(id, Named(name), now)), nothing());
    }
    // D is dead, A and B were too many.
    assert!(matches!(book.ask(), Some(Grant::One(3, _))));
    assert!(book.ask().is_none());
}

#[test]
fn a_failed_dial_is_told_to_all_who_waited_for_the_same_connection() {
    let mut book = TestBook::new(25, 100);
    let _ = book.wait(Named('U'));
    let _ = book.wait(Named('V'));
    let (bereft, todo) = book.dial_failed();
    assert_eq!((bereft.len(), told(todo)), (2, nothing()));
    assert!(book.is_empty());
    // And the next one tries anew.
    assert_eq!(told(book.wait(Named('W'))).1, 1);
}

#[test]
fn a_connection_lost_before_the_server_spoke_is_replaced() {
    let now = Instant::now();
    let mut book = TestBook::new(25, 100);
    let _ = book.wait(Named('U'));
    let _ = book.wait(Named('V'));
    assert_eq!(told(book.dialed_many(1, Named('A'), now)), grants(["U:stream of A1"], 0));
    assert_eq!(told(book.lost(1)), grants([], 1));
    // A stream of a connection that is gone matters to nobody.
    assert_eq!(told(book.stream_done(1, now)), nothing());
}

#[test]
fn a_server_that_allows_fewer_streams_later_gets_no_more() {
    let now = Instant::now();
    let mut book = TestBook::new(25, 100);
    let _ = book.dialed_many(1, Named('A'), now);
    let _ = book.allow(1, 10);
    assert!(book.ask().is_some() && book.ask().is_some());
    let _ = book.allow(1, 0);
    assert!(book.ask().is_none());
    assert_eq!(told(book.wait(Named('U'))).1, 1);
    let _ = book.stream_done(1, now);
    assert_eq!(told(book.allow(1, 10)), grants(["U:stream of A1"], 0));
}

#[test]
fn what_is_unused_expires_and_what_is_used_does_not() {
    let begin = Instant::now();
    let mut book = TestBook::new(25, 100);
    let _ = book.dialed_one(1, Named('A'), begin);
    let _ = book.dialed_many(2, Named('B'), begin);
    let _ = book.allow(2, 100);
    let later = begin + seconds(60);
    assert_eq!(book.expire(1, later, seconds(90)), Expiry::Later(seconds(30)));
    assert_eq!(book.expire(2, later, seconds(90)), Expiry::Later(seconds(30)));
    assert!(matches!(book.ask(), Some(Grant::Many(2, _))));
    let much_later = begin + seconds(1_000);
    assert_eq!(book.expire(1, much_later, seconds(90)), Expiry::Expired);
    assert_eq!(book.expire(2, much_later, seconds(90)), Expiry::Later(seconds(90)));
    let _ = book.stream_done(2, much_later);
    assert_eq!(book.expire(2, much_later + seconds(90), seconds(90)), Expiry::Expired);
    assert!(book.ask().is_none());
}

#[test]
fn trn_014_what_is_retired_is_neither_given_nor_taken_back() {
    let now = Instant::now();
    let mut book = TestBook::new(25, 100);
    let _ = book.dialed_one(1, Named('A'), now);
    let _ = book.dialed_one(2, Named('B'), now);
    assert!(matches!(book.ask(), Some(Grant::One(2, _))));
    let _ = book.wait(Named('U'));
    // Two are there, one of them in use; a third is being made.
    assert_eq!(book.retire(3).0.len(), 0);
    assert_eq!(told(book.give_back(2, Named('B'), now)), nothing());
    assert!(book.ask().is_none());
}
