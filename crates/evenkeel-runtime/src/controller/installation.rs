//! [`InstallationWatch`]: waits until a kind is installed, and until it is not any more, by a watch of CustomResourceDefinitions.

use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_cache::{Delivery, HandlerOptions, InformerFactory, InformerHold, SharedInformer, Subscription};
use evenkeel_client::discovery::{DiscoveryError, GroupVersion};
use evenkeel_client::{Client, Unstructured};
use evenkeel_core::{ObjectKey, ResourceInfo};

use super::definition::{
    DefinitionState, Finding, MissingKind, UsableDefinition, WantedKind, find_definition, still_serves,
};

/// The shortest and the longest time between two requests to discovery, while a definition is established and its kind not listed.
const DISCOVERY_RETRY: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(10));

/// A kind that a server serves.
#[derive(Clone, Debug)]
pub(super) struct InstalledKind {
    /// As discovery describes it.
    pub(super) info: Arc<ResourceInfo>,
    /// `None` for a kind that is not one of a definition: it never goes.
    definition: Option<UsableDefinition>,
}

/// Follows the definition of one kind. Holds the informer of definitions, which all waits of a factory share.
pub(super) struct InstallationWatch {
    client: Client,
    wanted: WantedKind,
    informers: InformerFactory,
    name: String,
    definitions: DefinitionEvents,
    /// Whether kinds without a definition were looked up.
    is_looked_up: bool,
}

struct DefinitionEvents {
    informer: SharedInformer<Unstructured>,
    changes: Subscription<Unstructured>,
    _hold: InformerHold,
}

impl DefinitionEvents {
    /// Subscribes to the changes of definitions.
    async fn open(informers: &InformerFactory, name: &str) -> Self {
        let options = || HandlerOptions::new().name(format!("{name} (installation)")).delivery(Delivery::Latest);
        loop {
            let informer = informers.definitions();
            // Both fail if the informer stops just now. The factory makes another one then.
            if let Ok(hold) = informer.hold()
                && let Ok(changes) = informer.subscribe(options())
            {
                hold.start();
                return DefinitionEvents { informer, changes, _hold: hold };
            }
            tokio::task::yield_now().await;
        }
    }
}

impl InstallationWatch {
    pub(super) async fn open(informers: &InformerFactory, client: &Client, wanted: WantedKind, name: &str) -> Self {
        let definitions = DefinitionEvents::open(informers, name).await;
        let (client, informers, name) = (client.clone(), informers.clone(), name.to_owned());
        InstallationWatch { client, wanted, informers, name, definitions, is_looked_up: false }
    }

    /// Waits until a definition changes.
    async fn changed(&mut self) {
        let mut change = self.definitions.changes.next().await;
        while change.is_some() {
            // Changes in quick succession count as one.
            tokio::select! {
                biased;
                next = self.definitions.changes.next() => change = next,
                () = ready(()) => return,
            }
        }
        // The informer was stopped elsewhere.
        self.definitions = DefinitionEvents::open(&self.informers, &self.name).await;
    }

    /// Waits until the kind is installed: its definition is established, and discovery lists it. `waiting` receives why it is not.
    pub(super) async fn installed(&mut self, mut waiting: impl FnMut(&MissingKind)) -> InstalledKind {
        let mut retry = DISCOVERY_RETRY.0;
        loop {
            if self.definitions.informer.synced().await.is_err() {
                self.changed().await;
                continue;
            }
            let found = find_definition(self.definitions.informer.indexer().snapshot().iter(), &self.wanted);
            let (missing, must_retry) = match found {
                Finding::Usable(definition) => {
                    self.is_looked_up = true;
                    match discover(&self.client, &self.wanted.info, &definition.version, Some(&definition.plural)).await
                    {
                        Ok(Some(info)) => return InstalledKind { info, definition: Some(definition) },
                        not_listed => {
                            let error = not_listed.err().map(|error| error.to_string());
                            let state = DefinitionState::NotDiscovered(error);
                            (MissingKind { definition: definition.name, state }, true)
                        }
                    }
                }
                Finding::Missing(missing) if !self.is_looked_up && missing.state == DefinitionState::Absent => {
                    // Built-in kinds and those of extension servers have no definition.
                    match discover(&self.client, &self.wanted.info, self.wanted.info.version(), None).await {
                        Ok(Some(info)) => return InstalledKind { info, definition: None },
                        Ok(None) => self.is_looked_up = true,
                        Err(error) => tracing::debug!(%error, kind = self.wanted.info.kind(), "discovery failed"),
                    }
                    (missing, !self.is_looked_up)
                }
                Finding::Missing(missing) => (missing, false),
            };
            waiting(&missing);
            if must_retry {
                // Discovery cannot be watched.
                let wait = retry;
                retry = (retry * 2).min(DISCOVERY_RETRY.1);
                tokio::select! {
                    biased;
                    () = tokio::time::sleep(wait) => {}
                    () = self.changed() => {}
                }
            } else {
                retry = DISCOVERY_RETRY.0;
                self.changed().await;
            }
        }
    }

    /// Waits until the kind is not served any more, and returns the name of its definition.
    pub(super) async fn gone(&mut self, installed: &InstalledKind) -> String {
        let mut definition = installed.definition.clone();
        loop {
            // A stopped informer shows an old state.
            if !self.definitions.informer.is_stopped() && self.definitions.informer.has_synced() {
                let indexer = self.definitions.informer.indexer();
                match &definition {
                    Some(usable) if !still_serves(indexer.get(ObjectKey::cluster(&usable.name)).as_ref(), usable) => {
                        // Discovery may list the kind for a moment.
                        self.is_looked_up = true;
                        return usable.name.clone();
                    }
                    Some(_) => {}
                    // Discovery may have been faster than the watch.
                    None => {
                        let found = find_definition(indexer.snapshot().iter(), &self.wanted);
                        if let Finding::Usable(usable) = found {
                            definition = Some(usable);
                        }
                    }
                }
            }
            self.changed().await;
        }
    }
}

/// Returns the kind in this version, if discovery lists it.
async fn discover(
    client: &Client,
    wanted: &ResourceInfo,
    version: &str,
    plural: Option<&str>,
) -> Result<Option<Arc<ResourceInfo>>, DiscoveryError> {
    let group_version = GroupVersion::gv(wanted.group(), version);
    let list = match client.discovery().resources_for_group_version(&group_version).await {
        Ok(list) => list,
        Err(error) if error.is_not_found() => return Ok(None),
        Err(error) => return Err(error),
    };
    let is_wanted =
        |info: &ResourceInfo| info.kind() == wanted.kind() && plural.is_none_or(|plural| info.plural() == plural);
    Ok(list.resources.into_iter().map(|resource| resource.info).find(|info| is_wanted(info)))
}
