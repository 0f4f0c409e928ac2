// Package suite drives controller-runtime's envtest against the stand-in for kube-apiserver: a manager with a controller, its
// cache and its webhooks, and users with roles.
package suite

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

const (
	finalizer = "example.com/clean-up"
	patience  = time.Minute
)

var widgetKind = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"}

func widget(name string, size int64) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"size": size}}}
	object.SetGroupVersionKind(widgetKind)
	object.SetNamespace("default")
	object.SetName(name)
	return object
}

func definition() *apiextensionsv1.CustomResourceDefinition {
	least := 0.0
	properties := map[string]apiextensionsv1.JSONSchemaProps{
		"spec": {
			Type:         "object",
			Properties:   map[string]apiextensionsv1.JSONSchemaProps{"size": {Type: "integer", Minimum: &least}},
			XValidations: apiextensionsv1.ValidationRules{{Rule: "self.size < 100", Message: "too large"}},
		},
		"status": {
			Type:       "object",
			Properties: map[string]apiextensionsv1.JSONSchemaProps{"made": {Type: "string"}},
		},
	}
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "widgets.example.com"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: widgetKind.Group,
			Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Kind: "Widget", Plural: "widgets"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Schema:       &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", Properties: properties}},
				Subresources: &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
			}},
		},
	}
}

func webhookRules() []admissionv1.RuleWithOperations {
	return []admissionv1.RuleWithOperations{{
		Operations: []admissionv1.OperationType{admissionv1.Create, admissionv1.Update},
		Rule:       admissionv1.Rule{APIGroups: []string{"example.com"}, APIVersions: []string{"v1"}, Resources: []string{"widgets"}},
	}}
}

func service(path string) admissionv1.WebhookClientConfig {
	return admissionv1.WebhookClientConfig{Service: &admissionv1.ServiceReference{Namespace: "default", Name: "webhooks", Path: &path}}
}

func hooks() envtest.WebhookInstallOptions {
	none := admissionv1.SideEffectClassNone
	return envtest.WebhookInstallOptions{
		MutatingWebhooks: []*admissionv1.MutatingWebhookConfiguration{{
			ObjectMeta: metav1.ObjectMeta{Name: "label"},
			Webhooks: []admissionv1.MutatingWebhook{{
				Name: "label.example.com", Rules: webhookRules(), ClientConfig: service("/label"),
				SideEffects: &none, AdmissionReviewVersions: []string{"v1"},
			}},
		}},
		ValidatingWebhooks: []*admissionv1.ValidatingWebhookConfiguration{{
			ObjectMeta: metav1.ObjectMeta{Name: "refuse"},
			Webhooks: []admissionv1.ValidatingWebhook{{
				Name: "refuse.example.com", Rules: webhookRules(), ClientConfig: service("/refuse"),
				SideEffects: &none, AdmissionReviewVersions: []string{"v1"},
			}},
		}},
	}
}

// reconciler makes a ConfigMap for each Widget, and cleans up when it is deleted.
type reconciler struct{ client.Client }

func (r reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	object := widget("", 0)
	if err := r.Get(ctx, request.NamespacedName, object); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !object.GetDeletionTimestamp().IsZero() {
		if controllerutil.RemoveFinalizer(object, finalizer) {
			return ctrl.Result{}, r.Update(ctx, object)
		}
		return ctrl.Result{}, nil
	}
	if controllerutil.AddFinalizer(object, finalizer) {
		return ctrl.Result{}, r.Update(ctx, object)
	}
	child := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: request.Namespace, Name: request.Name}}
	_, err := controllerutil.CreateOrUpdate(ctx, r.Client, child, func() error {
		size, _, err := unstructured.NestedInt64(object.Object, "spec", "size")
		if err != nil {
			return err
		}
		child.Data = map[string]string{"size": fmt.Sprint(size)}
		return controllerutil.SetControllerReference(object, child, r.Scheme())
	})
	if err != nil {
		return ctrl.Result{}, err
	}
	if made, _, _ := unstructured.NestedString(object.Object, "status", "made"); made == child.Name {
		return ctrl.Result{}, nil
	}
	if err := unstructured.SetNestedField(object.Object, child.Name, "status", "made"); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{}, r.Status().Update(ctx, object)
}

var environment *envtest.Environment

func TestMain(m *testing.M) {
	if os.Getenv("KUBEBUILDER_ASSETS") == "" || os.Getenv("EVENKEEL") == "" {
		fmt.Println("KUBEBUILDER_ASSETS and EVENKEEL are not set: see conformance/README.md")
		os.Exit(1)
	}
	log.SetLogger(logr.Discard())
	environment = &envtest.Environment{
		CRDInstallOptions:     envtest.CRDInstallOptions{CRDs: []*apiextensionsv1.CustomResourceDefinition{definition()}},
		WebhookInstallOptions: hooks(),
	}
	config, err := environment.Start()
	if err != nil {
		fmt.Println("start:", err)
		os.Exit(1)
	}
	ctx, stop := context.WithCancel(context.Background())
	code, err := run(ctx, m, config)
	stop()
	if err != nil {
		fmt.Println(err)
		code = 1
	}
	if err := environment.Stop(); err != nil {
		fmt.Println("stop:", err)
		code = 1
	}
	os.Exit(code)
}

var user client.Client

func run(ctx context.Context, m *testing.M, config *rest.Config) (int, error) {
	options := environment.WebhookInstallOptions
	manager, err := ctrl.NewManager(config, ctrl.Options{
		Metrics:       metricsserver.Options{BindAddress: "0"},
		WebhookServer: webhook.NewServer(webhook.Options{Host: options.LocalServingHost, Port: options.LocalServingPort, CertDir: options.LocalServingCertDir}),
	})
	if err != nil {
		return 1, err
	}
	server := manager.GetWebhookServer()
	server.Register("/label", &webhook.Admission{Handler: admission.HandlerFunc(func(_ context.Context, request admission.Request) admission.Response {
		object := widget("", 0)
		if err := object.UnmarshalJSON(request.Object.Raw); err != nil {
			return admission.Errored(400, err)
		}
		object.SetLabels(map[string]string{"labelled": "yes"})
		changed, err := object.MarshalJSON()
		if err != nil {
			return admission.Errored(500, err)
		}
		return admission.PatchResponseFromRaw(request.Object.Raw, changed)
	})})
	server.Register("/refuse", &webhook.Admission{Handler: admission.HandlerFunc(func(_ context.Context, request admission.Request) admission.Response {
		if request.Name == "refused" {
			return admission.Denied("no widget of this name")
		}
		return admission.Allowed("")
	})})
	err = ctrl.NewControllerManagedBy(manager).For(widget("", 0)).Owns(&corev1.ConfigMap{}).Complete(reconciler{manager.GetClient()})
	if err != nil {
		return 1, err
	}
	user, err = client.New(config, client.Options{Scheme: manager.GetScheme()})
	if err != nil {
		return 1, err
	}
	ended := make(chan error, 1)
	go func() { ended <- manager.Start(ctx) }()
	if !manager.GetCache().WaitForCacheSync(ctx) {
		return 1, fmt.Errorf("the cache has not synced: %v", <-ended)
	}
	return m.Run(), nil
}

// eventually fails the test if the condition does not hold in time.
func eventually(t *testing.T, what string, condition func() error) {
	t.Helper()
	var err error
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if err = condition(); err == nil {
			return
		}
	}
	t.Fatalf("%s: %v", what, err)
}

func create(t *testing.T, object client.Object) {
	t.Helper()
	// The webhook server may still be starting.
	eventually(t, "create "+object.GetName(), func() error {
		err := user.Create(context.Background(), object)
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		return err
	})
}

func TestControllerMakesAndRepairsItsChild(t *testing.T) {
	ctx := context.Background()
	create(t, widget("blue", 3))
	key := client.ObjectKey{Namespace: "default", Name: "blue"}
	child := &corev1.ConfigMap{}
	has := func(size string) func() error {
		return func() error {
			if err := user.Get(ctx, key, child); err != nil {
				return err
			}
			if child.Data["size"] != size {
				return fmt.Errorf("size is %q", child.Data["size"])
			}
			return nil
		}
	}
	eventually(t, "the child is made", has("3"))
	child.Data["size"] = "9"
	if err := user.Update(ctx, child); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the child is repaired", has("3"))
	object := widget("blue", 0)
	eventually(t, "the status is written", func() error {
		if err := user.Get(ctx, key, object); err != nil {
			return err
		}
		if made, _, _ := unstructured.NestedString(object.Object, "status", "made"); made != "blue" {
			return fmt.Errorf("status.made is %q", made)
		}
		return nil
	})
	if object.GetLabels()["labelled"] != "yes" {
		t.Errorf("labels are %v: the webhook was not called", object.GetLabels())
	}
	if err := user.Delete(ctx, object); err != nil {
		t.Fatal(err)
	}
	// Its child stays: beside a kube-apiserver alone there is no garbage collector.
	eventually(t, "it is deleted", func() error {
		if err := user.Get(ctx, key, object); !apierrors.IsNotFound(err) {
			return fmt.Errorf("still there: %v", err)
		}
		return nil
	})
}

func TestRefusals(t *testing.T) {
	create(t, widget("first", 1))
	err := user.Create(context.Background(), widget("refused", 1))
	if err == nil || !strings.Contains(err.Error(), `admission webhook "refuse.example.com" denied the request: no widget of this name`) {
		t.Errorf("the webhook: %v", err)
	}
	err = user.Create(context.Background(), widget("large", 100))
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "too large") {
		t.Errorf("the rule: %v", err)
	}
	err = user.Create(context.Background(), widget("negative", -1))
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "should be greater than or equal to 0") {
		t.Errorf("the schema: %v", err)
	}
}

func TestUsersHaveTheRightsOfTheirRoles(t *testing.T) {
	ctx := context.Background()
	reader, err := environment.AddUser(envtest.User{Name: "reader"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	role := &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "reader"},
		Rules:      []rbacv1.PolicyRule{{Verbs: []string{"get", "list"}, APIGroups: []string{""}, Resources: []string{"configmaps"}}},
	}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "reader"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "reader"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: "reader"}},
	}
	create(t, role)
	create(t, binding)
	restricted, err := client.New(reader.Config(), client.Options{Scheme: user.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "it may list", func() error {
		return restricted.List(ctx, &corev1.ConfigMapList{}, client.InNamespace("default"))
	})
	err = restricted.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "x"}})
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), `User "reader" cannot create resource "configmaps" in API group "" in the namespace "default"`) {
		t.Errorf("create: %v", err)
	}
}
