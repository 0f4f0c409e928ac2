use super::*;

type Observer = dyn Fn(u32) + Send + Sync;

fn recorder() -> (Arc<Mutex<Vec<u32>>>, Box<Observer>) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let observer = {
        let seen = seen.clone();
        Box::new(move |value| seen.lock().unwrap().push(value))
    };
    (seen, observer)
}

#[test]
fn dropping_the_guard_unregisters() {
    let observers = Arc::new(Observers::<Observer>::new());
    assert!(observers.is_empty() && !observers.is_any());
    let (seen, observer) = recorder();
    let guard = observers.register(observer);
    let (others_seen, other) = recorder();
    let other = observers.register(other);
    observers.call("test", |observer| observer(1));
    assert_eq!(observers.len(), 2);
    drop(guard);
    observers.call("test", |observer| observer(2));
    drop(other);
    observers.call("test", |observer| observer(3));
    assert_eq!((seen.lock().unwrap().clone(), others_seen.lock().unwrap().clone()), (vec![1], vec![1, 2]));
    assert!(observers.is_empty());
}

#[test]
fn an_observer_that_panics_is_not_called_again() {
    let observers = Arc::new(Observers::<Observer>::new());
    let calls = Arc::new(Mutex::new(0));
    let counted = calls.clone();
    let _bad = observers.register(Box::new(move |_| {
        *counted.lock().unwrap() += 1;
        panic!("on purpose");
    }));
    let (seen, observer) = recorder();
    let _good = observers.register(observer);
    observers.call("test", |observer| observer(1));
    observers.call("test", |observer| observer(2));
    assert_eq!(seen.lock().unwrap().clone(), [1, 2]);
    assert_eq!(*calls.lock().unwrap_or_else(PoisonError::into_inner), 1);
}

#[test]
fn a_guard_may_outlive_the_component() {
    let observers = Arc::new(Observers::<Observer>::new());
    let guard = observers.register(recorder().1);
    drop(observers);
    drop(guard);
}
