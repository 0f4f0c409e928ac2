//! The whole program on an embedded API server, in virtual time and without sockets. The tests simulate users, other clients and
//! the Deployment controller.

use evenkeel::helpers::is_controlled_by;
use evenkeel::manager::ManagerError;
use evenkeel::testing::eventually;
use evenkeel::webhook::testing::HookTester;
use serde_json::Value;
use tokio::task::JoinHandle;

use super::*;

struct World {
    /// Stops when it is dropped.
    _server: ApiServer,
    zone: Zone,
    sites: Api<Site>,
    secrets: Api<Secret>,
    deployments: Api<Deployment>,
    services: Api<Service>,
    pages: Api<ConfigMap>,
    stop: oneshot::Sender<()>,
    running: JoinHandle<Result<(), ManagerError>>,
}

impl World {
    async fn start() -> Outcome<Self> {
        let server = ApiServer::builder().in_process_only().start().await?;
        let (client, zone, (stop, stopped)) = (server.client(), Zone::default(), oneshot::channel());
        let running = tokio::spawn(program(&client, zone.clone(), String::new, ["0", "0"]).await?.run(stopped));
        Ok(World {
            _server: server,
            zone,
            sites: client.api::<Site>().default_namespace(),
            secrets: client.api::<Secret>().default_namespace(),
            deployments: client.api::<Deployment>().default_namespace(),
            services: client.api::<Service>().default_namespace(),
            pages: client.api::<ConfigMap>().default_namespace(),
            stop,
            running,
        })
    }

    async fn set_secret(&self, token: &str) -> Outcome {
        self.secrets.apply("token", "user", &apply!(Secret { string_data: { "TOKEN": token } })).await?;
        Ok(())
    }

    async fn create_site(&self) -> Outcome<Obj<Site>> {
        Ok(self.sites.create(&site(None)).await?)
    }

    /// Waits for the Deployment of the site with another content than this one.
    async fn rolled_from(&self, hash: &str) -> Outcome<Obj<Deployment>> {
        let rolled = async || self.deployments.get("blue").await.ok().filter(|deployment| content(deployment) != hash);
        Ok(eventually("the pods are rolled", rolled).await?)
    }

    async fn reason(&self, reason: &str) -> Outcome<Condition> {
        let ready =
            async || readiness(self.sites.get("blue").await.ok().as_ref()).filter(|ready| ready.reason == reason);
        Ok(eventually(format!("the site is {reason}"), ready).await?)
    }

    /// Simulates the Deployment controller.
    async fn replicas(&self, generation: i64, updated: i32, ready: i32) -> Outcome {
        let status = apply!(Deployment {
            status: { observed_generation: generation, updated_replicas: updated, ready_replicas: ready },
        });
        self.deployments.status().apply("blue", "simulation", &status).force().await?;
        Ok(())
    }

    /// Stops the program, which must have had no failure.
    async fn end(self) -> Outcome {
        let _ = self.stop.send(());
        Ok(self.running.await??)
    }
}

fn site(image: Option<&str>) -> Site {
    let (page, image, secret) = ("<h1>hello</h1>".to_owned(), image.map(str::to_owned), Some("token".to_owned()));
    Site::new("blue", SiteSpec { page, replicas: 2, image, secret })
}

fn content(deployment: &Obj<Deployment>) -> String {
    let annotations = deployment.typed().ok().and_then(|found| found.spec.template.metadata.clone()?.annotations);
    annotations.and_then(|annotations| annotations.get("example.com/content").cloned()).unwrap_or_default()
}

#[tokio::test(start_paused = true)]
async fn a_site_has_a_deployment_a_service_and_a_page() -> Outcome {
    let world = World::start().await?;
    world.set_secret("one").await?;
    let site = world.create_site().await?;
    let deployment = world.rolled_from("").await?;
    assert!(is_controlled_by(&deployment, &site));
    assert!(is_controlled_by(&world.services.get("blue").await?, &site));
    assert!(is_controlled_by(&world.pages.get("blue").await?, &site));

    let spec: Value = serde_json::to_value(&deployment.typed()?.spec)?;
    assert_eq!(spec["replicas"], 2);
    let container = &spec["template"]["spec"]["containers"][0];
    assert_eq!(container["image"], IMAGE);
    assert_eq!(container["envFrom"], json!([{"secretRef": {"name": "token"}}]));
    assert_eq!(spec["selector"]["matchLabels"], spec["template"]["metadata"]["labels"]);
    world.end().await
}

#[tokio::test(start_paused = true)]
async fn a_changed_secret_or_page_rolls_the_deployment() -> Outcome {
    let world = World::start().await?;
    world.set_secret("one").await?;
    world.create_site().await?;
    let first = content(&world.rolled_from("").await?);
    world.set_secret("two").await?;
    let second = content(&world.rolled_from(&first).await?);
    world.sites.patch("blue", &Patch::merge(&json!({"spec": {"page": "<h1>bye</h1>"}}))).await?;
    let third = content(&world.rolled_from(&second).await?);
    assert!(first != third && third.len() == 64, "{third}");
    world.end().await
}

#[tokio::test(start_paused = true)]
async fn a_deleted_child_comes_back() -> Outcome {
    let world = World::start().await?;
    world.set_secret("one").await?;
    world.create_site().await?;
    let deployment = world.rolled_from("").await?;
    world.deployments.delete("blue").await?;
    let another = async || world.deployments.get("blue").await.ok().filter(|new| new.uid() != deployment.uid());
    eventually("another deployment", another).await?;
    let service = world.services.get("blue").await?;
    world.services.delete("blue").await?;
    let another = async || world.services.get("blue").await.ok().filter(|new| new.uid() != service.uid());
    eventually("another service", another).await?;
    let page = world.pages.get("blue").await?;
    world.pages.delete("blue").await?;
    let another = async || world.pages.get("blue").await.ok().filter(|new| new.uid() != page.uid());
    eventually("another page", another).await?;
    world.end().await
}

#[tokio::test(start_paused = true)]
async fn a_deployment_of_another_controller_stays_unchanged() -> Outcome {
    let world = World::start().await?;
    let other = world.pages.apply("other", "user", &apply!(ConfigMap { data: { "a": "b" } })).await?;
    let foreign = apply!(Deployment {
        metadata: { owner_references: [controller_reference(&other)?] },
        spec: {
            selector: { match_labels: { "app": "other" } },
            template: {
                metadata: { labels: { "app": "other" } },
                spec: { containers: [{ name: "app", image: "app:1" }] },
            },
        },
    });
    let foreign = world.deployments.apply("blue", "user", &foreign).await?;
    world.set_secret("one").await?;
    let site = world.create_site().await?;
    eventually("the site is reconciled", async || world.pages.get("blue").await.ok()).await?;
    let owner = apply!(Deployment { metadata: { owner_references: [controller_reference(&site)?] } });
    let refused = world.deployments.apply("blue", NAME, &owner).force().await.err();
    assert!(refused.as_ref().is_some_and(evenkeel::Error::is_invalid), "{refused:?}");
    assert_eq!(world.deployments.get("blue").await?.resource_version(), foreign.resource_version());
    world.end().await
}

#[tokio::test(start_paused = true)]
async fn the_status_follows_the_deployment() -> Outcome {
    let world = World::start().await?;
    world.create_site().await?;
    let missing = world.reason("SecretMissing").await?;
    assert_eq!((&*missing.status, &*missing.message), ("False", "secrets \"token\" not found"));
    assert!(world.deployments.get("blue").await.is_err_and(|error| error.is_not_found()));

    world.set_secret("one").await?;
    assert_eq!(world.reason("RollingOut").await?.message, "0 of 2 replicas");
    world.replicas(1, 2, 2).await?;
    let serving = world.reason("Serving").await?;
    assert_eq!((&*serving.status, serving.observed_generation), ("True", Some(1)));
    assert_eq!(world.sites.get("blue").await?.typed()?.status.as_ref().map(|status| status.ready_replicas), Some(2));

    // The pods of the previous content are still ready, and do not count.
    world.set_secret("two").await?;
    world.reason("RollingOut").await?;
    world.replicas(2, 2, 2).await?;
    world.reason("Serving").await?;
    world.end().await
}

#[tokio::test(start_paused = true)]
async fn a_deleted_site_is_removed_from_the_zone_first() -> Outcome {
    let world = World::start().await?;
    world.set_secret("one").await?;
    world.create_site().await?;
    world.reason("RollingOut").await?;
    assert!(world.zone.borrow().contains("default/blue"));
    assert_eq!(world.sites.get("blue").await?.typed()?.metadata.finalizers, Some(vec!["example.com/zone".to_owned()]));
    world.sites.delete("blue").await?;
    let deleted = async || world.sites.get("blue").await.err().filter(evenkeel::Error::is_not_found);
    eventually("the site is deleted", deleted).await?;
    assert!(world.zone.borrow().is_empty());
    world.end().await
}

#[tokio::test]
async fn the_webhook_sets_an_image_and_refuses_one_without_a_tag() -> Outcome {
    let defaulted = HookTester::new(defaults()).create(&site(None)).await?;
    assert_eq!(defaulted.object["spec"]["image"], IMAGE);
    assert_eq!(HookTester::new(defaults()).create(&site(Some("caddy:2"))).await?.patch, None);

    let validation = HookTester::new(validation());
    assert!(validation.create(&defaulted.object).await?.allowed);
    let refused = validation.update(&defaulted.object, &site(Some("caddy"))).await?;
    assert_eq!((refused.allowed, &*refused.status.message), (false, "spec.image: caddy has no tag"));
    Ok(())
}

#[test]
fn the_definition_has_a_rule_a_column_and_a_status() -> Outcome {
    let version = serde_json::to_value(Site::crd())?["spec"]["versions"][0].take();
    let schema = &version["schema"]["openAPIV3Schema"]["properties"];
    let rules = &schema["spec"]["properties"]["replicas"]["x-kubernetes-validations"];
    assert_eq!(*rules, json!([{"rule": "self >= 1 && self <= 5", "message": "one to five replicas"}]));
    assert_eq!(version["additionalPrinterColumns"][0]["name"], "Ready");
    assert_eq!(version["subresources"]["status"], json!({}));
    assert_eq!(schema["status"]["properties"]["conditions"]["x-kubernetes-list-map-keys"], json!(["type"]));
    Ok(())
}
