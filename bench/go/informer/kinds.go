package main

import (
	"log"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// informersOf returns the informers of a data set, and a function that starts them. Both generated and dynamic ones
// index by namespace.
func informersOf(config *rest.Config, data string) ([]cache.SharedIndexInformer, func(<-chan struct{})) {
	if data == "documents" {
		clients, err := dynamic.NewForConfig(config)
		if err != nil {
			log.Fatal(err)
		}
		factory := dynamicinformer.NewDynamicSharedInformerFactory(clients, 0)
		documents := schema.GroupVersionResource{Group: "bench.evenkeel.dev", Version: "v1", Resource: "documents"}
		return []cache.SharedIndexInformer{factory.ForResource(documents).Informer()}, factory.Start
	}
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		log.Fatal(err)
	}
	factory := informers.NewSharedInformerFactory(clients, 0)
	core, apps, batch := factory.Core().V1(), factory.Apps().V1(), factory.Batch().V1()
	network, access := factory.Networking().V1(), factory.Rbac().V1()
	switch data {
	case "pods":
		return []cache.SharedIndexInformer{core.Pods().Informer()}, factory.Start
	case "secrets":
		return []cache.SharedIndexInformer{core.Secrets().Informer()}, factory.Start
	case "endpointslices":
		return []cache.SharedIndexInformer{factory.Discovery().V1().EndpointSlices().Informer()}, factory.Start
	case "kinds":
		return []cache.SharedIndexInformer{
			core.Pods().Informer(), core.Secrets().Informer(), factory.Discovery().V1().EndpointSlices().Informer(),
			core.ConfigMaps().Informer(), core.Services().Informer(), core.ServiceAccounts().Informer(),
			core.PersistentVolumeClaims().Informer(), core.Nodes().Informer(), core.Namespaces().Informer(),
			apps.Deployments().Informer(), apps.ReplicaSets().Informer(), apps.StatefulSets().Informer(),
			apps.DaemonSets().Informer(), batch.Jobs().Informer(), batch.CronJobs().Informer(),
			network.Ingresses().Informer(), network.NetworkPolicies().Informer(), access.Roles().Informer(),
			access.RoleBindings().Informer(), factory.Policy().V1().PodDisruptionBudgets().Informer(),
		}, factory.Start
	}
	log.Fatalf("there are no data %q", data)
	return nil, nil
}
