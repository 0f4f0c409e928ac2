//! The driver task of an informer: runs the reflector into the process loop until the informer stops. `scoped_driver` has that of
//! an informer of several namespaces, `ranged_driver` that of one whose places change.

use std::sync::Arc;

use tokio::sync::mpsc;

use super::consistency::WholeStore;
use super::observe::{InformerEvent, Notify};
use super::process_loop::ProcessLoop;
use super::ranged_driver::RangedDriver;
use super::scoped_driver::ScopedDriver;
use super::shared::{InformerShared, Parts, Reflectors, StopMode, TaskGuard};

/// Runs the reflector until the informer is stopped.
pub(super) async fn drive(guard: DriverGuard) {
    let shared = Arc::clone(&guard.shared);
    let Some(Parts { reflectors, queue, checker, checks }) = shared.take_parts() else { return };
    let (reflector, source) = match reflectors {
        Reflectors::One { reflector, source } => (reflector, source),
        Reflectors::PerNamespace(reflectors) => {
            let driver = ScopedDriver::new(&shared, reflectors, queue);
            let scopes = driver.checked_scopes();
            return tokio::select! {
                biased;
                () = driver.run() => {}
                () = checker.run(&shared, checks, &scopes) => {}
            };
        }
        Reflectors::Ranged(reflectors) => {
            let driver = RangedDriver::new(&shared, reflectors, queue);
            let ranges = driver.checked_ranges();
            return tokio::select! {
                biased;
                () = driver.run() => {}
                () = checker.run(&shared, checks, &ranges) => {}
            };
        }
    };
    let observers = Arc::clone(&shared.observers);
    let reflector = reflector.observe_errors(move |failure| observers.notify(InformerEvent::Failed(failure)));
    let mut reflector = reflector.resync_period(shared.processor().check_period()).build();
    shared.watch_reflector(reflector.status());
    let (repair, repairs) = mpsc::channel(1);
    let mut process_loop = ProcessLoop::new(Arc::clone(&shared), queue, repairs);
    let store = WholeStore { shared: Arc::clone(&shared), source, repairs: repair };
    let mut stop_mode = shared.watch_stop_mode();
    tokio::select! {
        biased;
        _ = stop_mode.wait_for(|mode| *mode != StopMode::KeepRunning) => {}
        () = reflector.run(&mut process_loop) => {}
        // After the reflector, in the same task: the store is then at the version that the reflector has reached.
        () = checker.run(&shared, checks, &store) => {}
    }
    if shared.is_retiring() {
        process_loop.remove_all();
    }
}

/// Marks the informer as stopped when the driver ends, also if it panicked or was dropped before it ran.
pub(super) struct DriverGuard {
    pub(super) shared: Arc<InformerShared>,
    pub(super) _task: TaskGuard,
}

impl Drop for DriverGuard {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let informer = self.shared.name.as_str();
            tracing::error!(informer, "list and watch source panicked; informer stopped");
        }
        self.shared.set_stopped();
    }
}
