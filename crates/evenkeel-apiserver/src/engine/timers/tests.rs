use std::sync::atomic::AtomicUsize;
use std::task::{Wake, Waker};

use super::*;

#[derive(Default)]
struct Alarm(AtomicUsize);

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

fn watch_waker() -> (Arc<Alarm>, Arc<WatchWaker>) {
    let (alarm, watch_waker) = (Arc::new(Alarm::default()), Arc::new(WatchWaker::default()));
    watch_waker.prepare(&Waker::from(Arc::clone(&alarm)));
    (alarm, watch_waker)
}

#[test]
fn sto_21_the_wheel_wakes_the_watches_that_are_due() {
    let wheel = Arc::new(TimerWheel::default());
    let times = [Duration::from_secs(1), Duration::from_millis(1500), Duration::from_secs(2), Duration::MAX / 2];
    let watch_wakers: Vec<_> = times.map(|_| watch_waker()).into();
    let timers: Vec<_> = times.iter().zip(&watch_wakers).map(|(at, (_, it))| Timer::set(&wheel, *at, it)).collect();
    let woken = || watch_wakers.iter().map(|(alarm, _)| alarm.0.load(Ordering::SeqCst)).collect::<Vec<_>>();
    wheel.turn(Duration::from_millis(999));
    assert_eq!(woken(), [0, 0, 0, 0]);
    wheel.turn(Duration::from_millis(1001));
    assert_eq!(woken(), [1, 0, 0, 0], "no timer fires early");
    wheel.turn(Duration::from_secs(2));
    wheel.turn(Duration::from_secs(3));
    assert_eq!(woken(), [1, 1, 1, 0], "each timer fires once");
    drop(timers);
    assert!(wheel.due.lock().unwrap().is_empty(), "a dropped timer is removed");
}
