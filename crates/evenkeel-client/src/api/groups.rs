//! Accessors as in client-go's ClientSet: `client.core_v1().pods("default")`.
//!
//! A table with one row per built-in group and version, with its kinds. A row states since or until which version of
//! Kubernetes a kind is served, so that the accessors match the version that k8s-openapi was built for.

use evenkeel_core::StaticScope;
use http::Method;
use k8s_openapi::{api, apiextensions_apiserver, kube_aggregator};
use kube_core::Resource;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Api;
use super::request::{ApiRequest, read_json, verb};
use super::scope::{Addressable, Cluster, Namespaced, Scope};
use crate::client::Client;
use crate::wire::ResponseShape;

/// A kind that can only be created: the server returns the same object with its status filled in.
pub struct CreateOnly<K, S>(Api<K, S>);

impl<K, S> CreateOnly<K, S>
where
    K: Serialize + DeserializeOwned + 'static,
    S: Addressable,
{
    /// Creates the object.
    pub fn create(&self, object: &K) -> ApiRequest<K, verb::Write> {
        let request = self.0.request(Method::POST, None, None, ResponseShape::Full).value(object);
        ApiRequest::new(request, self.0.resource(), read_json)
    }
}

impl<K, S: Scope> std::fmt::Debug for CreateOnly<K, S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("CreateOnly").field(&self.0).finish()
    }
}

/// The API of a kind in its scope.
fn api<K, S>(client: &Client, scope: S) -> Api<K, S>
where
    K: Resource + 'static,
    K::DynamicType: Default,
    K::Scope: StaticScope,
    S: Scope,
{
    Api::new(client, client.resource::<K>(), scope)
}

macro_rules! group_version {
    ($accessor:ident $name:ident $group_version:literal) => {
        #[doc = concat!("The kinds of `", $group_version, "`.")]
        #[derive(Clone, Debug)]
        pub struct $name(Client);

        impl Client {
            #[doc = concat!("The kinds of `", $group_version, "`.")]
            pub fn $accessor(&self) -> $name {
                $name(self.clone())
            }
        }
    };
}

/// One kind and its accessor.
macro_rules! kind {
    (namespaces $method:ident $kind:ident [$($module:ident)::+]) => {
        #[doc = concat!("The `", stringify!($kind), "`s of a namespace. Use [`Client::api`] for all namespaces.")]
        pub fn $method(&self, namespace: &str) -> Api<$($module)::+::$kind, Namespaced> {
            api(&self.0, Namespaced(namespace.into()))
        }
    };
    (cluster $method:ident $kind:ident [$($module:ident)::+]) => {
        #[doc = concat!("The `", stringify!($kind), "`s of the cluster.")]
        pub fn $method(&self) -> Api<$($module)::+::$kind, Cluster> {
            api(&self.0, Cluster)
        }
    };
    (create_in_namespaces $method:ident $kind:ident [$($module:ident)::+]) => {
        #[doc = concat!("`", stringify!($kind), "`, which is created in a namespace.")]
        pub fn $method(&self, namespace: &str) -> CreateOnly<$($module)::+::$kind, Namespaced> {
            CreateOnly(api(&self.0, Namespaced(namespace.into())))
        }
    };
    (create_in_cluster $method:ident $kind:ident [$($module:ident)::+]) => {
        #[doc = concat!("`", stringify!($kind), "`, which is created in the cluster.")]
        pub fn $method(&self) -> CreateOnly<$($module)::+::$kind, Cluster> {
            CreateOnly(api(&self.0, Cluster))
        }
    };
}

macro_rules! kinds {
    ($name:ident $module:tt { $($found:ident { $($method:ident: $kind:ident),* $(,)? })* }) => {
        $(kinds!(@found $found $name $module { $($method $kind)* });)*
    };
    (@found $found:ident $name:ident $module:tt { $($method:ident $kind:ident)* }) => {
        impl $name {
            $(kind!($found $method $kind $module);)*
        }
    };
}

/// The table. Tests read it a second time, as a list of the accessors' targets; `$d` is a dollar for the macros of that
/// pass.
macro_rules! table {
    ($d:tt $($rows:tt)*) => {
        $($rows)*

        /// The target of every accessor.
        #[cfg(test)]
        fn rows(client: &Client) -> Vec<tests::Row> {
            let mut rows = Vec::new();
            let mut names = std::collections::HashMap::new();
            macro_rules! group_version {
                ($d accessor:ident $d name:ident $d group_version:literal) => {
                    assert!(names.insert(stringify!($d name), $d group_version).is_none());
                    let _: $d name = client.$d accessor();
                };
            }
            macro_rules! info {
                (namespaces $d kinds:expr, $d method:ident) => { $d kinds.$d method("ns").resource() };
                (cluster $d kinds:expr, $d method:ident) => { $d kinds.$d method().resource() };
                (create_in_namespaces $d kinds:expr, $d method:ident) => { $d kinds.$d method("ns").0.resource() };
                (create_in_cluster $d kinds:expr, $d method:ident) => { $d kinds.$d method().0.resource() };
            }
            macro_rules! kinds {
                ($d name:ident $d module:tt { $d($d found:ident { $d($d method:ident: $d kind:ident),* $d(,)? })* }) => {
                    $d($d(
                        rows.push(tests::Row {
                            group_version: names[stringify!($d name)],
                            method: stringify!($d method),
                            in_namespaces: stringify!($d found).ends_with("namespaces"),
                            info: std::sync::Arc::clone(info!($d found $d name(client.clone()), $d method)),
                        });
                    )*)*
                };
            }
            $($rows)*
            rows
        }
    };
}

table! { $
    group_version!(core_v1 CoreV1 "v1");
    kinds!(CoreV1 [api::core::v1] {
        namespaces {
            config_maps: ConfigMap, endpoints: Endpoints, events: Event, limit_ranges: LimitRange,
            persistent_volume_claims: PersistentVolumeClaim, pod_templates: PodTemplate, pods: Pod,
            replication_controllers: ReplicationController, resource_quotas: ResourceQuota, secrets: Secret,
            service_accounts: ServiceAccount, services: Service,
        }
        cluster {
            component_statuses: ComponentStatus, namespaces: Namespace, nodes: Node,
            persistent_volumes: PersistentVolume,
        }
    });
    group_version!(admissionregistration_v1 AdmissionregistrationV1 "admissionregistration.k8s.io/v1");
    kinds!(AdmissionregistrationV1 [api::admissionregistration::v1] {
        cluster {
            mutating_webhook_configurations: MutatingWebhookConfiguration,
            validating_admission_policies: ValidatingAdmissionPolicy,
            validating_admission_policy_bindings: ValidatingAdmissionPolicyBinding,
            validating_webhook_configurations: ValidatingWebhookConfiguration,
        }
    });
    k8s_openapi::k8s_if_ge_1_36! {
        kinds!(AdmissionregistrationV1 [api::admissionregistration::v1] {
            cluster {
                mutating_admission_policies: MutatingAdmissionPolicy,
                mutating_admission_policy_bindings: MutatingAdmissionPolicyBinding,
            }
        });
    }
    group_version!(admissionregistration_v1alpha1 AdmissionregistrationV1alpha1 "admissionregistration.k8s.io/v1alpha1");
    kinds!(AdmissionregistrationV1alpha1 [api::admissionregistration::v1alpha1] {
        cluster {
            mutating_admission_policies: MutatingAdmissionPolicy,
            mutating_admission_policy_bindings: MutatingAdmissionPolicyBinding,
        }
    });
    group_version!(admissionregistration_v1beta1 AdmissionregistrationV1beta1 "admissionregistration.k8s.io/v1beta1");
    k8s_openapi::k8s_if_le_1_33! {
        kinds!(AdmissionregistrationV1beta1 [api::admissionregistration::v1beta1] {
            cluster {
                validating_admission_policies: ValidatingAdmissionPolicy,
                validating_admission_policy_bindings: ValidatingAdmissionPolicyBinding,
            }
        });
    }
    k8s_openapi::k8s_if_ge_1_34! {
        kinds!(AdmissionregistrationV1beta1 [api::admissionregistration::v1beta1] {
            cluster {
                mutating_admission_policies: MutatingAdmissionPolicy,
                mutating_admission_policy_bindings: MutatingAdmissionPolicyBinding,
            }
        });
    }
    group_version!(apiserverinternal_v1alpha1 ApiserverinternalV1alpha1 "internal.apiserver.k8s.io/v1alpha1");
    kinds!(ApiserverinternalV1alpha1 [api::apiserverinternal::v1alpha1] {
        cluster { storage_versions: StorageVersion }
    });
    group_version!(apps_v1 AppsV1 "apps/v1");
    kinds!(AppsV1 [api::apps::v1] {
        namespaces {
            controller_revisions: ControllerRevision, daemon_sets: DaemonSet, deployments: Deployment,
            replica_sets: ReplicaSet, stateful_sets: StatefulSet,
        }
    });
    group_version!(authentication_v1 AuthenticationV1 "authentication.k8s.io/v1");
    kinds!(AuthenticationV1 [api::authentication::v1] {
        create_in_cluster { self_subject_reviews: SelfSubjectReview, token_reviews: TokenReview }
    });
    group_version!(authorization_v1 AuthorizationV1 "authorization.k8s.io/v1");
    kinds!(AuthorizationV1 [api::authorization::v1] {
        create_in_namespaces { local_subject_access_reviews: LocalSubjectAccessReview }
        create_in_cluster {
            self_subject_access_reviews: SelfSubjectAccessReview,
            self_subject_rules_reviews: SelfSubjectRulesReview, subject_access_reviews: SubjectAccessReview,
        }
    });
    group_version!(autoscaling_v1 AutoscalingV1 "autoscaling/v1");
    kinds!(AutoscalingV1 [api::autoscaling::v1] {
        namespaces { horizontal_pod_autoscalers: HorizontalPodAutoscaler }
    });
    group_version!(autoscaling_v2 AutoscalingV2 "autoscaling/v2");
    kinds!(AutoscalingV2 [api::autoscaling::v2] {
        namespaces { horizontal_pod_autoscalers: HorizontalPodAutoscaler }
    });
    group_version!(batch_v1 BatchV1 "batch/v1");
    kinds!(BatchV1 [api::batch::v1] {
        namespaces { cron_jobs: CronJob, jobs: Job }
    });
    group_version!(certificates_v1 CertificatesV1 "certificates.k8s.io/v1");
    kinds!(CertificatesV1 [api::certificates::v1] {
        cluster { certificate_signing_requests: CertificateSigningRequest }
    });
    k8s_openapi::k8s_if_ge_1_37! {
        kinds!(CertificatesV1 [api::certificates::v1] {
            namespaces { pod_certificate_requests: PodCertificateRequest }
            cluster { cluster_trust_bundles: ClusterTrustBundle }
        });
    }
    k8s_openapi::k8s_if_le_1_36! {
        group_version!(certificates_v1alpha1 CertificatesV1alpha1 "certificates.k8s.io/v1alpha1");
        kinds!(CertificatesV1alpha1 [api::certificates::v1alpha1] {
            cluster { cluster_trust_bundles: ClusterTrustBundle }
        });
        k8s_openapi::k8s_if_ge_1_34! {
            k8s_openapi::k8s_if_le_1_34! {
                kinds!(CertificatesV1alpha1 [api::certificates::v1alpha1] {
                    namespaces { pod_certificate_requests: PodCertificateRequest }
                });
            }
        }
    }
    group_version!(certificates_v1beta1 CertificatesV1beta1 "certificates.k8s.io/v1beta1");
    kinds!(CertificatesV1beta1 [api::certificates::v1beta1] {
        cluster { cluster_trust_bundles: ClusterTrustBundle }
    });
    k8s_openapi::k8s_if_ge_1_35! {
        kinds!(CertificatesV1beta1 [api::certificates::v1beta1] {
            namespaces { pod_certificate_requests: PodCertificateRequest }
        });
    }
    group_version!(coordination_v1 CoordinationV1 "coordination.k8s.io/v1");
    kinds!(CoordinationV1 [api::coordination::v1] {
        namespaces { leases: Lease }
    });
    group_version!(coordination_v1alpha2 CoordinationV1alpha2 "coordination.k8s.io/v1alpha2");
    kinds!(CoordinationV1alpha2 [api::coordination::v1alpha2] {
        namespaces { lease_candidates: LeaseCandidate }
    });
    group_version!(coordination_v1beta1 CoordinationV1beta1 "coordination.k8s.io/v1beta1");
    kinds!(CoordinationV1beta1 [api::coordination::v1beta1] {
        namespaces { lease_candidates: LeaseCandidate }
    });
    group_version!(discovery_v1 DiscoveryV1 "discovery.k8s.io/v1");
    kinds!(DiscoveryV1 [api::discovery::v1] {
        namespaces { endpoint_slices: EndpointSlice }
    });
    group_version!(events_v1 EventsV1 "events.k8s.io/v1");
    kinds!(EventsV1 [api::events::v1] {
        namespaces { events: Event }
    });
    group_version!(flowcontrol_v1 FlowcontrolV1 "flowcontrol.apiserver.k8s.io/v1");
    kinds!(FlowcontrolV1 [api::flowcontrol::v1] {
        cluster { flow_schemas: FlowSchema, priority_level_configurations: PriorityLevelConfiguration }
    });
    k8s_openapi::k8s_if_ge_1_37! {
        group_version!(lifecycle_v1alpha1 LifecycleV1alpha1 "lifecycle.k8s.io/v1alpha1");
        kinds!(LifecycleV1alpha1 [api::lifecycle::v1alpha1] {
            namespaces { eviction_requests: EvictionRequest, evictions: Eviction }
        });
    }
    group_version!(networking_v1 NetworkingV1 "networking.k8s.io/v1");
    kinds!(NetworkingV1 [api::networking::v1] {
        namespaces { ingresses: Ingress, network_policies: NetworkPolicy }
        cluster { ingress_classes: IngressClass, ip_addresses: IPAddress, service_cidrs: ServiceCIDR }
    });
    k8s_openapi::k8s_if_le_1_36! {
        group_version!(networking_v1beta1 NetworkingV1beta1 "networking.k8s.io/v1beta1");
        kinds!(NetworkingV1beta1 [api::networking::v1beta1] {
            cluster { ip_addresses: IPAddress, service_cidrs: ServiceCIDR }
        });
    }
    group_version!(node_v1 NodeV1 "node.k8s.io/v1");
    kinds!(NodeV1 [api::node::v1] {
        cluster { runtime_classes: RuntimeClass }
    });
    group_version!(policy_v1 PolicyV1 "policy/v1");
    kinds!(PolicyV1 [api::policy::v1] {
        namespaces { pod_disruption_budgets: PodDisruptionBudget }
    });
    group_version!(rbac_v1 RbacV1 "rbac.authorization.k8s.io/v1");
    kinds!(RbacV1 [api::rbac::v1] {
        namespaces { role_bindings: RoleBinding, roles: Role }
        cluster { cluster_role_bindings: ClusterRoleBinding, cluster_roles: ClusterRole }
    });
    k8s_openapi::k8s_if_ge_1_34! {
        group_version!(resource_v1 ResourceV1 "resource.k8s.io/v1");
        kinds!(ResourceV1 [api::resource::v1] {
            namespaces { resource_claim_templates: ResourceClaimTemplate, resource_claims: ResourceClaim }
            cluster { device_classes: DeviceClass, resource_slices: ResourceSlice }
        });
        k8s_openapi::k8s_if_ge_1_37! {
            kinds!(ResourceV1 [api::resource::v1] {
                cluster { device_taint_rules: DeviceTaintRule }
            });
        }
    }
    group_version!(resource_v1alpha3 ResourceV1alpha3 "resource.k8s.io/v1alpha3");
    kinds!(ResourceV1alpha3 [api::resource::v1alpha3] {
        cluster { device_taint_rules: DeviceTaintRule }
    });
    k8s_openapi::k8s_if_le_1_33! {
        kinds!(ResourceV1alpha3 [api::resource::v1alpha3] {
            namespaces { resource_claim_templates: ResourceClaimTemplate, resource_claims: ResourceClaim }
            cluster { device_classes: DeviceClass, resource_slices: ResourceSlice }
        });
    }
    k8s_openapi::k8s_if_ge_1_36! {
        kinds!(ResourceV1alpha3 [api::resource::v1alpha3] {
            cluster { resource_pool_status_requests: ResourcePoolStatusRequest }
        });
    }
    group_version!(resource_v1beta1 ResourceV1beta1 "resource.k8s.io/v1beta1");
    kinds!(ResourceV1beta1 [api::resource::v1beta1] {
        namespaces { resource_claim_templates: ResourceClaimTemplate, resource_claims: ResourceClaim }
        cluster { device_classes: DeviceClass, resource_slices: ResourceSlice }
    });
    group_version!(resource_v1beta2 ResourceV1beta2 "resource.k8s.io/v1beta2");
    kinds!(ResourceV1beta2 [api::resource::v1beta2] {
        namespaces { resource_claim_templates: ResourceClaimTemplate, resource_claims: ResourceClaim }
        cluster { device_classes: DeviceClass, resource_slices: ResourceSlice }
    });
    k8s_openapi::k8s_if_ge_1_36! {
        kinds!(ResourceV1beta2 [api::resource::v1beta2] {
            cluster { device_taint_rules: DeviceTaintRule }
        });
    }
    group_version!(scheduling_v1 SchedulingV1 "scheduling.k8s.io/v1");
    kinds!(SchedulingV1 [api::scheduling::v1] {
        cluster { priority_classes: PriorityClass }
    });
    k8s_openapi::k8s_if_ge_1_35! {
        k8s_openapi::k8s_if_le_1_35! {
            group_version!(scheduling_v1alpha1 SchedulingV1alpha1 "scheduling.k8s.io/v1alpha1");
            kinds!(SchedulingV1alpha1 [api::scheduling::v1alpha1] {
                namespaces { workloads: Workload }
            });
        }
    }
    k8s_openapi::k8s_if_ge_1_36! {
        k8s_openapi::k8s_if_le_1_36! {
            group_version!(scheduling_v1alpha2 SchedulingV1alpha2 "scheduling.k8s.io/v1alpha2");
            kinds!(SchedulingV1alpha2 [api::scheduling::v1alpha2] {
                namespaces { pod_groups: PodGroup, workloads: Workload }
            });
        }
    }
    k8s_openapi::k8s_if_ge_1_37! {
        group_version!(scheduling_v1alpha3 SchedulingV1alpha3 "scheduling.k8s.io/v1alpha3");
        kinds!(SchedulingV1alpha3 [api::scheduling::v1alpha3] {
            namespaces { composite_pod_groups: CompositePodGroup, pod_groups: PodGroup, workloads: Workload }
        });
    }
    k8s_openapi::k8s_if_ge_1_37! {
        group_version!(scheduling_v1beta1 SchedulingV1beta1 "scheduling.k8s.io/v1beta1");
        kinds!(SchedulingV1beta1 [api::scheduling::v1beta1] {
            namespaces { pod_groups: PodGroup, workloads: Workload }
        });
    }
    group_version!(storage_v1 StorageV1 "storage.k8s.io/v1");
    kinds!(StorageV1 [api::storage::v1] {
        namespaces { csi_storage_capacities: CSIStorageCapacity }
        cluster {
            csi_drivers: CSIDriver, csi_nodes: CSINode, storage_classes: StorageClass,
            volume_attachments: VolumeAttachment,
        }
    });
    k8s_openapi::k8s_if_ge_1_34! {
        kinds!(StorageV1 [api::storage::v1] {
            cluster { volume_attributes_classes: VolumeAttributesClass }
        });
    }
    k8s_openapi::k8s_if_le_1_34! {
        group_version!(storage_v1alpha1 StorageV1alpha1 "storage.k8s.io/v1alpha1");
        kinds!(StorageV1alpha1 [api::storage::v1alpha1] {
            cluster { volume_attributes_classes: VolumeAttributesClass }
        });
    }
    k8s_openapi::k8s_if_le_1_36! {
        group_version!(storage_v1beta1 StorageV1beta1 "storage.k8s.io/v1beta1");
        kinds!(StorageV1beta1 [api::storage::v1beta1] {
            cluster { volume_attributes_classes: VolumeAttributesClass }
        });
    }
    k8s_openapi::k8s_if_ge_1_37! {
        group_version!(storagemigration_v1 StoragemigrationV1 "storagemigration.k8s.io/v1");
        kinds!(StoragemigrationV1 [api::storagemigration::v1] {
            cluster { storage_version_migrations: StorageVersionMigration }
        });
    }
    k8s_openapi::k8s_if_le_1_34! {
        group_version!(storagemigration_v1alpha1 StoragemigrationV1alpha1 "storagemigration.k8s.io/v1alpha1");
        kinds!(StoragemigrationV1alpha1 [api::storagemigration::v1alpha1] {
            cluster { storage_version_migrations: StorageVersionMigration }
        });
    }
    k8s_openapi::k8s_if_ge_1_35! {
        group_version!(storagemigration_v1beta1 StoragemigrationV1beta1 "storagemigration.k8s.io/v1beta1");
        kinds!(StoragemigrationV1beta1 [api::storagemigration::v1beta1] {
            cluster { storage_version_migrations: StorageVersionMigration }
        });
    }
    group_version!(apiextensions_v1 ApiextensionsV1 "apiextensions.k8s.io/v1");
    kinds!(ApiextensionsV1 [apiextensions_apiserver::pkg::apis::apiextensions::v1] {
        cluster { custom_resource_definitions: CustomResourceDefinition }
    });
    group_version!(apiregistration_v1 ApiregistrationV1 "apiregistration.k8s.io/v1");
    kinds!(ApiregistrationV1 [kube_aggregator::pkg::apis::apiregistration::v1] {
        cluster { api_services: APIService }
    });
}

#[cfg(test)]
mod tests;
