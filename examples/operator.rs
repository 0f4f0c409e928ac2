//! An operator: a `Site` is a page that a Deployment serves behind a Service. With webhooks, leader election, probes and metrics.
//!
//! ```text
//! cargo run -p evenkeel-examples --example operator                  # on an embedded API server, to its end
//! cargo run -p evenkeel-examples --example operator -- --cluster     # on the cluster of the kubeconfig, until a signal
//! cargo test -p evenkeel-examples --example operator                 # its tests: operator/tests.rs
//! ```

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::collections::BTreeSet;
use std::future::ready;
use std::time::Duration;

use evenkeel::apiserver::ApiServer;
use evenkeel::apply;
use evenkeel::client::wait_for;
use evenkeel::controller::Source;
use evenkeel::election::ElectionHealth;
use evenkeel::health::{Check, Health, HealthServer, MetricsSource, Prometheus};
use evenkeel::helpers::{Finalized, Finalizers, condition, controller_reference, find_condition, set_condition};
use evenkeel::k8s_openapi::api::apps::v1::Deployment;
use evenkeel::k8s_openapi::api::core::v1::{ConfigMap, EnvFromSource, Secret, Service, ServiceSpec};
use evenkeel::k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use evenkeel::k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};
use evenkeel::prelude::*;
use evenkeel::webhook::certificates::OwnCertificates;
use evenkeel::webhook::{Hook, Mutating, Validating, WebhookServer};
use evenkeel_examples::Outcome;
use serde_json::json;
use sha2::{Digest, Sha256};
use tokio::sync::{oneshot, watch};

/// The field manager, the Lease, and the Service of the webhooks.
const NAME: &str = "site-operator";
const IMAGE: &str = "nginx:1.29";

/// A web site of one page.
#[custom_resource(
    group = "example.com", version = "v1", namespaced, status = SiteStatus, derive = "PartialEq",
    printcolumn(name = "Ready", type_ = "string", json_path = ".status.conditions[?(@.type=='Ready')].status")
)]
#[derive(PartialEq)]
struct SiteSpec {
    /// The page.
    page: String,
    /// Number of replicas.
    #[x_kube(validation = Rule::new("self >= 1 && self <= 5").message("one to five replicas"))]
    replicas: i32,
    /// Image of the web server. The webhook sets the default.
    image: Option<String>,
    /// A Secret in the namespace of the site. Its entries are environment variables of the web server.
    secret: Option<String>,
}

#[api_type]
#[derive(Default, PartialEq)]
struct SiteStatus {
    #[serde(default)]
    ready_replicas: i32,
    #[serde(default)]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    conditions: Vec<Condition>,
}

/// The names of sites outside of the cluster, as in a DNS zone. A finalizer removes the name of a deleted site.
type Zone = watch::Sender<BTreeSet<String>>;

struct SiteReconciler {
    zone: Zone,
    finalizers: Finalizers<Site>,
}

/// Applies the children of a site and returns its Deployment.
async fn apply_children(site: &Obj<Site>, secret: Option<&Obj<Secret>>, ctx: &Context) -> Outcome<Obj<Deployment>> {
    let (name, spec) = (site.key().name(), &site.typed()?.spec);
    let owner = controller_reference(site)?;
    let metadata = || apply!(ObjectMeta { labels: { "site": name }, owner_references: [owner.clone()] });
    let page = apply!(ConfigMap { metadata: metadata(), data: { "index.html": &spec.page } });
    ctx.api::<ConfigMap>().beside(site).enforce(name, &page).await?;

    let ports = apply!(ServiceSpec { selector: { "site": name }, ports: [{ port: 80 }] });
    let service = apply!(Service { metadata: metadata(), spec: ports });
    ctx.api::<Service>().beside(site).enforce(name, &service).await?;

    // A changed page or Secret changes the pod template, which rolls the pods.
    let secret = secret.map(|secret| secret.typed()).transpose()?;
    let hash = Sha256::digest(json!([spec.page, secret.map(|secret| secret.data.clone())]).to_string());
    let environment = spec.secret.iter().map(|secret| apply!(EnvFromSource { secret_ref: { name: secret } }));
    let deployment = apply!(Deployment {
        metadata: metadata(),
        spec: {
            replicas: spec.replicas,
            selector: { match_labels: { "site": name } },
            template: {
                metadata: { labels: { "site": name }, annotations: { "example.com/content": format!("{hash:x}") } },
                spec: {
                    containers: [{
                        name: "web", image: spec.image.as_deref().unwrap_or(IMAGE), env_from: environment.collect::<Vec<_>>(),
                        volume_mounts: [{ name: "page", mount_path: "/usr/share/nginx/html" }],
                    }],
                    volumes: [{ name: "page", config_map: { name: name } }],
                },
            },
        },
    });
    Ok(ctx.api::<Deployment>().beside(site).enforce(name, &deployment).await?)
}

impl Reconciler<Site> for SiteReconciler {
    type Error = ReconcileError;

    async fn reconcile(&self, site: Obj<Site>, ctx: Context) -> Result<Next, ReconcileError> {
        let Finalized::Live { object: site, .. } = self.finalizers.finalize(&ctx, &site).await? else {
            return Ok(Next::done());
        };
        let object = site.typed()?;
        let mut status = object.status.clone().unwrap_or_default();
        let secrets = ctx.lister::<Secret>()?;
        let secret = object.spec.secret.as_ref().map(|name| secrets.require(site.key().sibling(name)));
        let (is_ready, reason, message) = match secret.transpose() {
            // An event of the Secret enqueues the site: nothing to retry.
            Err(missing) => (false, "SecretMissing", missing.to_string()),
            Ok(secret) => {
                let deployment = apply_children(&site, secret.as_ref(), &ctx).await?;
                self.zone.send_modify(|names| _ = names.insert(site.key().to_string()));
                let observed = deployment.typed()?.status.clone().unwrap_or_default();
                status.ready_replicas = observed.ready_replicas.unwrap_or(0);
                let is_current = observed.observed_generation == deployment.generation();
                let updated = observed.updated_replicas.filter(|_| is_current).unwrap_or(0);
                let is_ready = updated.min(status.ready_replicas) >= object.spec.replicas;
                let ready = format!("{} of {} replicas", status.ready_replicas, object.spec.replicas);
                (is_ready, if is_ready { "Serving" } else { "RollingOut" }, ready)
            }
        };
        set_condition(&mut status.conditions, condition(&site, "Ready", is_ready, reason, message));
        if object.status.as_ref() != Some(&status) {
            let status = apply!(Site { status });
            ctx.api::<Site>().beside(&site).status().enforce(site.key().name(), &status).await?;
        }
        Ok(Next::done())
    }
}

fn defaults() -> Hook<Mutating<Site>> {
    Hook::mutating::<Site>().apply(|site, _| {
        site.spec.image.get_or_insert_with(|| IMAGE.to_owned());
        Ok(())
    })
}

fn validation() -> Hook<Validating<Site>> {
    Hook::validating::<Site>().on_write(|site, _| match &site.spec.image {
        Some(image) if !image.contains(':') => ready(Err(format!("spec.image: {image} has no tag").into())),
        _ => ready(Ok(())),
    })
}

/// Installs the kind and returns all parts of the program. The controller reconciles while this process leads.
async fn program(client: &Client, zone: Zone, metrics: impl MetricsSource, addresses: [&str; 2]) -> Outcome<Manager> {
    let client = &client.with_field_manager(NAME);
    client.api::<CustomResourceDefinition>().enforce(Site::crd_name(), &Site::crd()).await?;
    let (mut finalizers, names) = (Finalizers::new(), zone.clone());
    finalizers.register("example.com/zone", move |site: Obj<Site>, _| {
        names.send_modify(|names| _ = names.remove(site.key().as_str()));
        ready(Ok(()))
    })?;
    let reconciler = reconcile_with(SiteReconciler { zone, finalizers });
    let secret = |site: &Obj<Site>| site.typed().ok().and_then(|site| site.spec.secret.clone());
    let children = Controller::<Site>::new(client).owns::<Deployment>().owns::<Service>().owns::<ConfigMap>();
    let sites = children.references(Source::<Secret>::of(), secret);
    let election = ElectionHealth::new(Duration::from_secs(20));
    let elector = LeaderElector::new(client, NAME).health(&election);
    let manager = Manager::new(client).controller(sites, reconciler).election(elector);

    let namespace = &client.config().namespace;
    let certificates = OwnCertificates::new(client, NAME, namespace, NAME);
    let hooks = WebhookServer::builder().hook(defaults()).hook(validation()).service(namespace, NAME);
    let hooks = hooks.certificate(certificates.slot()).address(addresses[0]).build()?;
    let server = hooks.clone();
    let health = Health::new();
    health.live().add(Check::election(&election))?;
    health.ready().add(Check::synced(&manager.informers().of::<Site>()))?;
    health.ready().add(hooks.readiness())?;
    health.ready().add(certificates.readiness(&hooks))?; // API servers trust the certificate
    let probes = HealthServer::builder(&health).address(addresses[1]).metrics(metrics);
    Ok(manager
        .server("probes", |stop| probes.run(stop.requested()))
        .server("webhooks", move |stop| server.run(stop.requested()))
        .always("certificates", move |stop| certificates.run(hooks, stop.requested())))
}

fn readiness(site: Option<&Obj<Site>>) -> Option<Condition> {
    find_condition(&site?.typed().ok()?.status.as_ref()?.conditions, "Ready").cloned()
}

#[tokio::main]
async fn main() -> Outcome {
    let (zone, metrics) = (Zone::default(), Prometheus::install()?);
    if std::env::args().any(|argument| argument == "--cluster") {
        let client = Client::infer().await?;
        let webhooks = std::env::var_os("KUBERNETES_SERVICE_HOST").map_or("0", |_| ":9443"); // off outside of a pod
        return Ok(program(&client, zone, metrics, [webhooks, ":8081"]).await?.run(shutdown_signal()?).await?);
    }
    let server = ApiServer::start().await?;
    let client = server.client();
    let webhooks = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?; // a free port
    server.route_service(&client.config().namespace, NAME, 443, webhooks);
    let (stop, stopped) = oneshot::channel::<()>();
    let addresses = [&*webhooks.to_string(), "127.0.0.1:0"];
    let running = tokio::spawn(program(&client, zone.clone(), metrics, addresses).await?.run(stopped));
    let sites = client.api::<Site>().default_namespace();
    let show = async |reason| {
        let is_so = |site: Option<&Obj<Site>>| readiness(site).is_some_and(|ready| ready.reason == reason);
        let ready = readiness(wait_for(&sites, "blue", is_so).await?.as_ref()).ok_or("deleted")?;
        println!("  {reason}: {}; published: {:?}", ready.message, *zone.borrow());
        Outcome::Ok(())
    };

    println!("a user creates a site that refers to a secret");
    let spec = SiteSpec { page: "<h1>hello</h1>".into(), replicas: 2, image: None, secret: Some("token".into()) };
    sites.create(&Site::new("blue", spec)).await?;
    show("SecretMissing").await?;
    println!("the user creates the secret");
    let secret = apply!(Secret { string_data: { "TOKEN": "one" } });
    client.api::<Secret>().default_namespace().apply("token", "user", &secret).await?;
    show("RollingOut").await?;
    println!("the replicas become ready"); // this program simulates the Deployment controller
    let ready = apply!(Deployment { status: { observed_generation: 1, updated_replicas: 2, ready_replicas: 2 } });
    client.api::<Deployment>().default_namespace().status().apply("blue", "simulation", &ready).await?;
    show("Serving").await?;
    println!("the user deletes the site");
    sites.delete("blue").await?;
    wait_for(&sites, "blue", |site: Option<&Obj<Site>>| site.is_none()).await?;
    println!("  the finalizer has run; published: {:?}", *zone.borrow());
    let _ = stop.send(()); // everything stops in order, and the lease is released
    Ok(running.await??)
}

#[cfg(test)]
#[path = "operator/simulation.rs"]
mod simulation;
#[cfg(test)]
#[path = "operator/tests.rs"]
mod tests;
