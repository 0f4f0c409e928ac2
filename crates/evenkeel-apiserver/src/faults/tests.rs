use std::collections::VecDeque;
use std::sync::atomic::AtomicU64 as Counter;

use bytes::Bytes;
use http::{HeaderMap, Method};

use super::framing::Framing;
use super::stages::{Chain, FaultOutput};
use super::*;

const A: &str = "{\"type\":\"ADDED\",\"object\":{\"a\":1}}\n";
const B: &str = "{\"type\":\"MODIFIED\",\"object\":{\"b\":2}}\n";
const C: &str = "{\"type\":\"DELETED\",\"object\":{\"c\":3}}\n";
const MARK: &str = "{\"type\":\"BOOKMARK\",\"object\":{\"m\":4}}\n";

fn subject(method: Method, uri: &str) -> Subject {
    Subject::of(&method, &uri.parse().unwrap(), &HeaderMap::new(), "tester")
}

/// Returns the output as text: chunks, `~N` pauses of milliseconds, `$` a clean end, `!` a cut.
fn run(actions: &[WatchAction], frames: &[&'static str]) -> Vec<String> {
    let mut chain = Chain::default();
    for action in actions {
        chain.push(action.clone());
    }
    let mut steps = VecDeque::new();
    for frame in frames {
        chain.feed(Bytes::from_static(frame.as_bytes()), &mut steps);
    }
    chain.end(&mut steps);
    let mut seen = Vec::new();
    for step in steps {
        match step {
            FaultOutput::Send(bytes) => seen.push(String::from_utf8(bytes.to_vec()).unwrap()),
            FaultOutput::Pause(duration) => seen.push(format!("~{}", duration.as_millis())),
            FaultOutput::End => {
                seen.push("$".into());
                break;
            }
            FaultOutput::ConnectionCut => {
                seen.push("!".into());
                break;
            }
        }
    }
    seen
}

fn one(action: WatchAction, frames: &[&'static str]) -> Vec<String> {
    run(&[action], frames)
}

#[test]
fn flt_4_close_after_events() {
    assert_eq!(one(WatchAction::CloseAfterEvents(2), &[A, B, C]), [A, B, "$"]);
    assert_eq!(one(WatchAction::CloseAfterEvents(0), &[A]), ["$"]);
    assert_eq!(one(WatchAction::CloseAfterEvents(9), &[A, B]), [A, B, "$"]);
}

#[test]
fn flt_4_close_after_bytes() {
    let second = &B[..5];
    let limit = (A.len() + 5) as u64;
    assert_eq!(one(WatchAction::CloseAfterBytes(limit), &[A, B]), [A, second, "$"]);
    assert_eq!(one(WatchAction::CloseAfterBytes(0), &[A, B]), ["$"]);
    assert_eq!(one(WatchAction::CloseAfterBytes(A.len() as u64), &[A, B]), [A, "$"]);
}

#[test]
fn flt_4_close_mid_frame_and_truncate() {
    assert_eq!(one(WatchAction::CloseMidFrame { event: 1, byte: 7 }, &[A, B, C]), [A, "{\"type\"", "!"]);
    assert_eq!(one(WatchAction::TruncateFrame { event: 1, byte: 7 }, &[A, B, C]), [A, "{\"type\"", "$"]);
    assert_eq!(one(WatchAction::CloseMidFrame { event: 0, byte: 0 }, &[A]), ["!"]);
    assert_eq!(one(WatchAction::TruncateFrame { event: 0, byte: 999 }, &[A]), [A, "$"]);
}

#[test]
fn flt_4_corrupt_frame_breaks_exactly_one_event() {
    let spoilt = format!("\u{1}{}", &A[1..]);
    assert_eq!(one(WatchAction::CorruptFrame { event: 0, byte: 0 }, &[A, B]), [spoilt.as_str(), B, "$"]);
    let seen = one(WatchAction::CorruptFrame { event: 0, byte: 9999 }, &[A]);
    assert!(seen[0].ends_with("\u{1}\n"), "{seen:?}");
    assert!(serde_json::from_str::<serde_json::Value>(&seen[0]).is_err());
}

#[test]
fn flt_4_split_frame() {
    let seen = one(WatchAction::SplitFrame { sizes: vec![1, 3, 20] }, &[A]);
    assert_eq!(seen, [&A[..1], &A[1..4], &A[4..24], &A[24..], "$"]);
    let bytes = one(WatchAction::SplitFrame { sizes: vec![] }, &[A]);
    assert_eq!(bytes.len(), A.len() + 1);
    assert_eq!(bytes.concat(), format!("{A}$"));
}

#[test]
fn flt_4_coalesce_frames() {
    let action = WatchAction::CoalesceFrames { events: 2, wait: Duration::from_millis(7) };
    assert_eq!(one(action.clone(), &[A, B, C]), [format!("{A}{B}"), C.into(), "$".into()]);
    let mut chain = Chain::default();
    chain.push(action);
    let mut steps = VecDeque::new();
    assert_eq!(chain.flush_after(), None);
    chain.feed(Bytes::from_static(A.as_bytes()), &mut steps);
    assert_eq!(chain.flush_after(), Some(Duration::from_millis(7)));
    assert!(steps.is_empty());
    chain.flush(&mut steps);
    assert_eq!(steps, [FaultOutput::Send(Bytes::from_static(A.as_bytes()))]);
}

#[test]
fn flt_4_duplicate_skip_and_reorder() {
    assert_eq!(one(WatchAction::DuplicateEvent { event: 1 }, &[A, B, C]), [A, B, B, C, "$"]);
    assert_eq!(one(WatchAction::SkipEvent { event: 1 }, &[A, B, C]), [A, C, "$"]);
    let reorder = |first, second| WatchAction::Reorder { first, second };
    assert_eq!(one(reorder(0, 1), &[A, B, C]), [B, A, C, "$"]);
    assert_eq!(one(reorder(0, 2), &[A, B, C, A]), [C, B, A, A, "$"]);
    assert_eq!(one(reorder(1, 9), &[A, B, C]), [A, B, C, "$"], "what is held is not lost");
}

#[test]
fn flt_4_expire_as_event() {
    let expire = WatchAction::Expire { event: 1, form: ExpireForm::Event };
    let error = "{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\
                 \"status\":\"Failure\",\"message\":\"too old resource version: 1 (2)\",\"reason\":\"Expired\",\
                 \"code\":410}}\n";
    assert_eq!(one(expire, &[A, B, C]), [A, error, "$"]);
}

#[test]
fn flt_4_expire_as_http() {
    let faults = Faults::new(None, None);
    faults.add(Faults::parse("expire:as=http").unwrap());
    let plan = faults.plan(&subject(Method::GET, "/api/v1/pods?watch=true"), &[], Duration::ZERO, &mut || 0);
    let RequestOutcome::Respond(status) = plan.outcome else { panic!("{plan:?}") };
    assert!(status.is_expired() && status.code == 410);
}

#[test]
fn flt_4_bookmark_only_hides_bookmarks_that_would_skip_an_event() {
    assert_eq!(one(WatchAction::BookmarkOnly, &[MARK, A, MARK, B]), [MARK, "$"]);
}

#[test]
fn flt_4_no_bookmarks() {
    assert_eq!(one(WatchAction::NoBookmarks, &[MARK, A, MARK, B]), [A, B, "$"]);
}

#[test]
fn flt_4_f_38_early_initial_end() {
    const END: &str = "{\"type\":\"BOOKMARK\",\"object\":{\"k8s.io/initial-events-end\":\"true\"}}\n";
    assert_eq!(one(WatchAction::EarlyInitialEnd, &[A, B, END, C, MARK]), [A, END, B, C, MARK, "$"]);
    assert_eq!(one(WatchAction::EarlyInitialEnd, &[END, C]), [END, C, "$"]);
    assert_eq!(one(WatchAction::EarlyInitialEnd, &[A]), [A, "$"], "what is held is not lost");
}

#[test]
fn flt_4_stall() {
    let stall = WatchAction::StallFor { event: 1, duration: Duration::from_millis(250) };
    assert_eq!(one(stall, &[A, B]), [A, "~250", B, "$"]);
}

#[test]
fn flt_4_error_event() {
    let error = WatchAction::ErrorEvent { event: 0, status: Box::new(Status::internal("boom")) };
    let seen = one(error, &[A]);
    assert_eq!(seen.len(), 2);
    let value: serde_json::Value = serde_json::from_str(&seen[0]).unwrap();
    assert_eq!(value["type"], "ERROR");
    assert_eq!(value["object"]["code"], 500);
    assert_eq!(seen[1], "$");
}

#[test]
fn flt_4_bin_2_frames_of_protobuf() {
    let event = |name: &str| crate::protobuf_response::event(name, "v1", "Pod", b"\x0a\x00");
    let (added, mark) = (event("ADDED"), event("BOOKMARK"));
    let run = |action: WatchAction| {
        let mut chain = Chain::new(Framing::Lengths);
        chain.push(action);
        let mut steps = VecDeque::new();
        chain.feed([&added[..], &mark, &added].concat().into(), &mut steps);
        steps
            .into_iter()
            .map(|step| if let FaultOutput::Send(bytes) = step { bytes } else { Bytes::new() })
            .collect::<Vec<_>>()
    };
    assert_eq!(run(WatchAction::NoBookmarks), [added.clone(), added.clone()]);
    assert_eq!(run(WatchAction::SkipEvent { event: 0 }), [mark.clone(), added.clone()]);
    assert_eq!(run(WatchAction::Reorder { first: 0, second: 1 }), [mark.clone(), added.clone(), added.clone()]);
    let holds = |action, index: usize, name: &str, kind: &[u8]| {
        let frames = run(action);
        let frame = &frames[index];
        let (length, body) = frame.split_first_chunk().unwrap();
        assert_eq!(u32::from_be_bytes(*length) as usize, body.len());
        assert_eq!(&body[2..2 + name.len()], name.as_bytes());
        assert!(body.windows(kind.len()).any(|part| part == kind));
    };
    holds(WatchAction::UnknownEventType { event: 1 }, 1, "SURPRISE", b"Surprise");
    holds(WatchAction::WrongKindObject { event: 0 }, 0, "ADDED", b"Surprise");
    let status = Box::new(Status::internal("boom"));
    holds(WatchAction::ErrorEvent { event: 2, status }, 2, "ERROR", b"Status");
    holds(WatchAction::Expire { event: 0, form: ExpireForm::Event }, 0, "ERROR", b"Expired");
    let cut = run(WatchAction::TruncateFrame { event: 0, byte: 3 });
    assert_eq!(cut[0], added.slice(..3));
    let half = Framing::Lengths.take(&mut added.slice(..7));
    assert_eq!(half, added.slice(..7), "what is no whole event passes for one");
}

#[test]
fn flt_4_unknown_type_and_wrong_kind_lose_no_event() {
    let seen = one(WatchAction::UnknownEventType { event: 1 }, &[A, B]);
    assert_eq!((seen[0].as_str(), seen[2].as_str()), (A, B));
    assert_eq!(serde_json::from_str::<serde_json::Value>(&seen[1]).unwrap()["type"], "SURPRISE");
    let seen = one(WatchAction::WrongKindObject { event: 0 }, &[A, B]);
    let value: serde_json::Value = serde_json::from_str(&seen[0]).unwrap();
    assert_eq!((&value["type"], &value["object"]["kind"]), (&"ADDED".into(), &"Surprise".into()));
    assert_eq!(seen[1..], [A, B, "$"]);
}

#[test]
fn flt_4_faults_chain_in_the_order_of_their_rules() {
    let actions = [WatchAction::SkipEvent { event: 0 }, WatchAction::CloseAfterEvents(1)];
    assert_eq!(run(&actions, &[A, B, C]), [B, "$"]);
}

#[test]
fn flt_1_a_rule_matches_what_it_names() {
    let now = Duration::from_secs(5);
    let rule = Rule::new(Action::Drop)
        .verb("get")
        .group("apps")
        .resource("deployments")
        .namespace("shop")
        .name("web")
        .user("tester")
        .during(Duration::from_secs(1)..Duration::from_secs(9));
    let hit = subject(Method::GET, "/apis/apps/v1/namespaces/shop/deployments/web/scale");
    assert!(rule.matches(&hit, now));
    assert!(!rule.matches(&hit, Duration::from_secs(9)), "outside the window");
    for miss in [
        subject(Method::PUT, "/apis/apps/v1/namespaces/shop/deployments/web"),
        subject(Method::GET, "/apis/apps/v1/namespaces/shop/deployments"),
        subject(Method::GET, "/apis/apps/v1/namespaces/other/deployments/web"),
        subject(Method::GET, "/apis/batch/v1/namespaces/shop/deployments/web"),
        subject(Method::GET, "/readyz"),
    ] {
        assert!(!rule.matches(&miss, now), "{miss:?}");
    }
    let mut headers = HeaderMap::new();
    headers.insert("user-agent", "kubectl/v1.32".parse().unwrap());
    let kubectl = Subject::of(&Method::GET, &"/api/v1/pods".parse().unwrap(), &headers, "x");
    assert!(Rule::new(Action::Drop).user_agent("kubectl").matches(&kubectl, now));
    assert!(!Rule::new(Action::Drop).user_agent("curl").matches(&kubectl, now));
}

#[test]
fn flt_1_verbs_are_those_of_the_api() {
    for (method, uri, verb) in [
        (Method::GET, "/api/v1/pods", "list"),
        (Method::GET, "/api/v1/pods?watch=1", "watch"),
        (Method::GET, "/api/v1/pods?watch=false", "list"),
        (Method::GET, "/api/v1/pods?limit=1&watch", "watch"),
        (Method::GET, "/api/v1/namespaces/a/pods/b", "get"),
        (Method::GET, "/api/v1/namespaces/a", "get"),
        (Method::GET, "/api/v1/namespaces", "list"),
        (Method::DELETE, "/api/v1/namespaces/a/pods", "deletecollection"),
        (Method::POST, "/api/v1/namespaces/a/pods", "create"),
        (Method::GET, "/version", "get"),
    ] {
        assert_eq!(subject(method, uri).verb, verb, "{uri}");
    }
    assert_eq!(subject(Method::PUT, "/api/v1/namespaces/a/status").resource, "namespaces");
    let old = subject(Method::GET, "/api/v1/watch/namespaces/a%62/pods");
    assert_eq!((&*old.verb, &*old.namespace, &*old.resource), ("watch", "ab", "pods"));
    assert_eq!(subject(Method::GET, "/api/v1/pods?w%61tch=true").verb, "watch");
    assert_eq!(subject(Method::GET, "/api/v1/pods?watch=False").verb, "list", "the server knows it for a list too");
}

#[test]
fn flt_1_skip_times_and_probability() {
    let faults = Faults::new(None, None);
    let id = faults.add(Rule::new(Action::Drop).skip(1).times(2));
    let list = subject(Method::GET, "/api/v1/pods");
    let fates: Vec<bool> =
        (0..5).map(|_| faults.plan(&list, &[], Duration::ZERO, &mut || 0).outcome == RequestOutcome::Drop).collect();
    assert_eq!(fates, [false, true, true, false, false]);
    assert_eq!(faults.report(), [RuleReport { id, action: "drop", matched: 5, fired: 2 }]);
    assert!(faults.remove(id) && !faults.remove(id));
    faults.add(Rule::new(Action::Drop).probability(0.5));
    let outcome = |random: u64| faults.plan(&list, &[], Duration::ZERO, &mut || random).outcome;
    assert_eq!(outcome(u64::MAX / 4), RequestOutcome::Drop);
    assert_eq!(outcome(u64::MAX / 4 * 3), RequestOutcome::Handle);
    assert_eq!(faults.counts()["drop"], 3);
}

#[test]
fn flt_1_delays_add_up_and_the_first_outcome_wins() {
    let faults = Faults::new(None, None);
    faults.delay(Duration::from_millis(10));
    faults.add(Rule::new(Action::Delay(Duration::from_millis(5))));
    let failing = faults.fail_next(1, 429, Some(3));
    faults.add(Rule::new(Action::Hang));
    let list = subject(Method::GET, "/api/v1/pods");
    let plan = faults.plan(&list, &[], Duration::ZERO, &mut || 0);
    assert_eq!(plan.delay, Duration::from_millis(15));
    let RequestOutcome::Respond(status) = plan.outcome else { panic!("{:?}", plan.outcome) };
    assert!(status.is_too_many_requests());
    assert_eq!(status.retry_after(), Some(Duration::from_secs(3)));
    assert_eq!(faults.plan(&list, &[], Duration::ZERO, &mut || 0).outcome, RequestOutcome::Hang);
    assert!(faults.remove(failing));
    faults.clear();
    assert_eq!(faults.plan(&list, &[], Duration::ZERO, &mut || 0).outcome, RequestOutcome::Handle);
}

#[test]
fn flt_1_watch_faults_match_watches_only_and_open_ones_too() {
    let faults = Faults::new(None, None);
    let (list, watch) = (subject(Method::GET, "/api/v1/pods"), subject(Method::GET, "/api/v1/pods?watch=1"));
    let seen = faults.plan(&watch, &[], Duration::ZERO, &mut || 0).seen;
    faults.drop_watch_after(3);
    assert!(faults.plan(&list, &[], Duration::ZERO, &mut || 0).watch.is_empty());
    let expected = [WatchAction::CloseAfterEvents(3)];
    assert_eq!(faults.newer_watch_faults(&watch, seen, Duration::ZERO, &mut || 0), expected);
    let plan = faults.plan(&watch, &[], Duration::ZERO, &mut || 0);
    assert_eq!(plan.watch, expected);
    assert!(faults.newer_watch_faults(&watch, plan.seen, Duration::ZERO, &mut || 0).is_empty());
}

#[test]
fn flt_1_specifications_become_rules() {
    let status = Status::failure(429, Reason::TOO_MANY_REQUESTS, "Too many requests, please try again later.")
        .with_details(StatusDetails { retry_after_seconds: 1, ..StatusDetails::default() });
    assert_eq!(
        Faults::parse("status:code=429,retry-after=1,times=5,resource=pods").unwrap(),
        Rule::new(Action::Status(Box::new(status))).times(5).resource("pods")
    );
    assert_eq!(Faults::parse("drop-watch:events=3").unwrap(), Rule::watch(WatchAction::CloseAfterEvents(3)));
    assert_eq!(
        Faults::parse("delay:ms=100, verb=list, probability=0.25,watches=false,skip=2").unwrap(),
        Rule::new(Action::Delay(Duration::from_millis(100))).verb("list").probability(0.25).watches(false).skip(2)
    );
    assert_eq!(
        Faults::parse("split-frames:sizes=1/5,user=a,user-agent=b,namespace=c,name=d,group=e,from-ms=1,until-ms=2")
            .unwrap(),
        Rule::watch(WatchAction::SplitFrame { sizes: vec![1, 5] })
            .user("a")
            .user_agent("b")
            .namespace("c")
            .name("d")
            .group("e")
            .during(Duration::from_millis(1)..Duration::from_millis(2))
    );
}

#[test]
fn flt_7_every_action_can_be_written_and_is_counted_under_its_name() {
    for name in spec::ACTIONS {
        let parameters = match *name {
            "status" | "error-event" => ":code=500,reason=Odd,message=boom",
            "delay" | "stall" => ":ms=1",
            "reset" | "drop-watch-bytes" => ":bytes=1",
            "drop-watch" => ":events=1",
            "lag-replica" => ":revisions=1",
            _ => "",
        };
        let rule = Faults::parse(&format!("{name}{parameters}")).unwrap();
        assert_eq!(rule.action.name(), *name);
        let faults = Faults::new(None, None);
        faults.add(rule);
        faults.plan(&subject(Method::GET, "/api/v1/pods?watch=1"), &[], Duration::ZERO, &mut || 0);
        assert_eq!(faults.counts().get(name), Some(&1), "{name}");
    }
}

#[test]
fn flt_1_errors_of_invalid_specifications() {
    for (spec, message) in [
        ("explode", "unknown fault \"explode\""),
        ("delay", "the fault \"delay\" needs ms=…"),
        ("delay:ms=soon", "ms=soon: not a whole number"),
        ("reorder-events:first=3,second=3", "second=3: not after the first"),
        ("drop:from-ms=20,until-ms=10", "until-ms=10: not after from-ms"),
        ("delay:ms=1,colour=red", "the fault \"delay\" has no parameter \"colour\""),
        ("drop:resource", "\"resource\" is not of the form key=value"),
        ("drop:times=1,times=2", "\"times\" is given twice"),
        ("status:code=200", "code=200: not an HTTP error code, 400 to 599"),
        ("drop:probability=2", "probability=2: not between 0 and 1"),
        ("split-frames:sizes=1/x", "sizes=1/x: not whole numbers with / between them"),
        ("expire:as=smoke", "as=smoke: neither event nor http"),
        ("coalesce-frames:events=99999999", "events=99999999: more than 10000"),
    ] {
        let error = Faults::parse(spec).unwrap_err().to_string();
        assert!(error.starts_with(message), "{spec}: {error}");
    }
}

#[test]
fn flt_2_refusing_wakes_the_listener() {
    let faults = Faults::new(None, None);
    let mut cx = Context::from_waker(Waker::noop());
    let known = faults.orders();
    assert!(faults.poll_orders(known, &mut cx).is_pending());
    faults.refuse_connections(true);
    let Poll::Ready(orders) = faults.poll_orders(known, &mut cx) else { panic!("no orders") };
    assert!(orders.refuse);
    faults.cut_connections();
    assert!(faults.orders().cuts > orders.cuts);
    faults.clear();
    assert!(!faults.orders().refuse);
}

#[derive(Default)]
struct FakeStore {
    compacted: Counter,
    lag: Counter,
    frozen: Counter,
    resets: Counter,
}

impl StoreControl for FakeStore {
    fn compact_now(&self) {
        self.compacted.store(u64::MAX, Ordering::Relaxed);
    }
    fn compact(&self, revision: u64) {
        self.compacted.store(revision, Ordering::Relaxed);
    }
    fn lag_replica(&self, revisions: u64) {
        self.lag.store(revisions, Ordering::Relaxed);
    }
    fn freeze_replica(&self, revision: Option<u64>) {
        self.frozen.store(revision.unwrap_or_default(), Ordering::Relaxed);
    }
    fn reset_history(&self) {
        self.resets.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn flt_5_consistency_faults_reach_the_store() {
    let store = Arc::new(FakeStore::default());
    let faults = Faults::new(Some(store.clone()), None);
    faults.compact(7);
    assert_eq!(store.compacted.load(Ordering::Relaxed), 7);
    faults.compact_now();
    assert_eq!(store.compacted.load(Ordering::Relaxed), u64::MAX);
    faults.lag_replica(3);
    faults.freeze_replica(Some(5));
    assert_eq!(store.frozen.load(Ordering::Relaxed), 5);
    faults.reset_history();
    assert_eq!((store.lag.load(Ordering::Relaxed), store.resets.load(Ordering::Relaxed)), (3, 1));
    assert_eq!(faults.counts()["compact"], 2);
}

/// An environment in which it is always an hour after the start.
struct FixedEnv;

impl crate::env::Env for FixedEnv {
    fn wall(&self) -> jiff::Timestamp {
        jiff::Timestamp::from_second(1_000_000).unwrap()
    }
    fn monotonic(&self) -> Duration {
        Duration::from_secs(3600)
    }
    fn random(&self) -> u64 {
        4
    }
}

/// An environment whose time is a counter.
struct ManualEnv(Counter);

impl crate::env::Env for ManualEnv {
    fn wall(&self) -> jiff::Timestamp {
        jiff::Timestamp::from_second(1_000_000 + self.0.load(Ordering::Relaxed) as i64).unwrap()
    }
    fn monotonic(&self) -> Duration {
        Duration::from_secs(self.0.load(Ordering::Relaxed))
    }
    fn random(&self) -> u64 {
        4
    }
}

#[test]
fn flt_6_only_the_wall_clock_jumps() {
    use crate::env::Env;
    let clock = Arc::new(Clock::new(Arc::new(FixedEnv)));
    let faults = Faults::new(None, Some(clock.clone()));
    faults.jump_wall(SignedDuration::from_secs(-60));
    assert_eq!(clock.wall().as_second(), 999_940);
    assert_eq!((clock.monotonic(), clock.random()), (Duration::from_secs(3600), 4));
    faults.jump_wall(SignedDuration::from_secs(60));
    assert_eq!(clock.wall().as_second(), 1_000_000);
    assert_eq!(faults.counts()["jump-wall"], 2);
}

#[test]
fn flt_6_skewed_clocks_drift_and_keep_their_drift() {
    use crate::env::Env;
    let hand = Arc::new(ManualEnv(Counter::new(10)));
    let clock = Arc::new(Clock::new(hand.clone()));
    let faults = Faults::new(None, Some(clock.clone()));
    faults.skew(100_000);
    hand.0.store(110, Ordering::Relaxed);
    assert_eq!(clock.monotonic(), Duration::from_secs(120), "ten percent of a hundred seconds");
    assert_eq!(clock.wall().as_second(), 1_000_120);
    faults.skew(0);
    hand.0.store(210, Ordering::Relaxed);
    assert_eq!(clock.monotonic(), Duration::from_secs(220));
    faults.skew(-i32::MAX);
    hand.0.store(230, Ordering::Relaxed);
    assert_eq!(clock.monotonic(), Duration::from_secs(230), "slow, but never back");
}
