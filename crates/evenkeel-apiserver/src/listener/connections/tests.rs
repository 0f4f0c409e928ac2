use super::*;

const SECOND: Duration = Duration::from_secs(1);

struct Connections {
    table: ConnectionTable<&'static str>,
    now: Duration,
}

impl Connections {
    fn new(total: usize, unauthenticated: usize) -> Self {
        Connections { table: ConnectionTable::new(ConnectionLimits { total, unauthenticated }), now: SECOND }
    }

    /// Opens a connection. Returns the one that it replaces.
    fn open(&mut self, name: &'static str) -> Result<(Arc<Activity>, Option<&'static str>), ()> {
        let activity = Arc::new(Activity::default());
        let (id, replaced) = match self.table.admit(Arc::clone(&activity), self.now) {
            ConnectionAdmission::Admitted(id) => (id, None),
            ConnectionAdmission::Replacing(id, handle) => (id, Some(handle)),
            ConnectionAdmission::Refused => return Err(()),
        };
        self.table.set_handle(id, name);
        Ok((activity, replaced))
    }

    fn authenticated(&mut self, name: &'static str) -> Arc<Activity> {
        let (activity, _) = self.open(name).unwrap();
        activity.start();
        activity.authenticate();
        activity.finish(self.now);
        self.now += SECOND;
        activity
    }
}

#[test]
fn connections_without_credentials_never_lock_an_administrator_out() {
    let mut connections = Connections::new(4, 2);
    let admin = connections.authenticated("admin");
    admin.start();
    assert_eq!(connections.open("stranger-1").unwrap().1, None);
    assert_eq!(connections.open("stranger-2").unwrap().1, None);
    assert_eq!(connections.open("stranger-3").unwrap().1, Some("stranger-1"), "the oldest makes room");
    let (activity, replaced) = connections.open("second-admin").unwrap();
    assert_eq!(replaced, Some("stranger-2"));
    activity.authenticate();
    activity.start();
    assert_eq!(connections.open("stranger-4").unwrap().1, None, "only those without credentials count");
    assert_eq!(connections.open("third-admin").unwrap().1, Some("stranger-3"));
}

#[test]
fn a_full_table_evicts_what_is_idle_for_longest_and_nothing_that_is_in_use() {
    let mut connections = Connections::new(3, 3);
    let busy = connections.authenticated("busy");
    busy.start();
    connections.authenticated("idle-1");
    connections.authenticated("idle-2");
    assert!(connections.open("early").is_err(), "idle for two seconds is not long enough");
    connections.now += 5 * SECOND;
    let (activity, replaced) = connections.open("new").unwrap();
    assert_eq!(replaced, Some("idle-1"));
    activity.authenticate();
    activity.start();
    assert_eq!(connections.table.evict(connections.now), Some("idle-2"));
    assert_eq!(connections.table.evict(connections.now), None, "all others are in use");
}

#[test]
fn a_closed_connection_leaves_room() {
    let mut connections = Connections::new(1, 1);
    let activity = Arc::new(Activity::default());
    let ConnectionAdmission::Admitted(id) = connections.table.admit(activity, SECOND) else { panic!("full") };
    connections.table.remove(id);
    assert_eq!(connections.open("next").unwrap().1, None);
}
