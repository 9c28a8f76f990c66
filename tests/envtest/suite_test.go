package suite

import (
	"context"
	"net/http"
	"os"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	authv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

var kind = schema.GroupVersionKind{Group: "example.dev", Version: "v1", Kind: "Greeting"}

func crd() *apiextensionsv1.CustomResourceDefinition {
	yes := true
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "greetings.example.dev"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: kind.Group, Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "greetings", Singular: "greeting", Kind: kind.Kind, ListKind: "GreetingList"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: kind.Version, Served: true, Storage: true,
				Subresources: &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object", XPreserveUnknownFields: &yes,
				}},
			}},
		},
	}
}

func greeting(name, text string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"text": text}}}
	object.SetGroupVersionKind(kind)
	object.SetNamespace("default")
	object.SetName(name)
	return object
}

// reconciler keeps a ConfigMap with the text of each Greeting, and reports it.
type reconciler struct{ client.Client }

func (r reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	object := greeting("", "")
	if err := r.Get(ctx, request.NamespacedName, object); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	text, _, _ := unstructured.NestedString(object.Object, "spec", "text")
	made := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: request.Namespace, Name: request.Name}}
	if _, err := controllerutil.CreateOrUpdate(ctx, r.Client, made, func() error {
		made.Data = map[string]string{"text": text}
		return controllerutil.SetControllerReference(object, made, r.Scheme())
	}); err != nil {
		return ctrl.Result{}, err
	}
	if err := unstructured.SetNestedField(object.Object, text, "status", "said"); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{}, r.Status().Update(ctx, object)
}

// polite refuses Greetings that shout.
type polite struct{}

func (polite) Handle(_ context.Context, request admission.Request) admission.Response {
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON(request.Object.Raw); err != nil {
		return admission.Errored(http.StatusBadRequest, err)
	}
	if text, _, _ := unstructured.NestedString(object.Object, "spec", "text"); text == "HEY" {
		return admission.Denied("no shouting")
	}
	return admission.Allowed("")
}

func hooks() *admissionregistrationv1.ValidatingWebhookConfiguration {
	path, none := "/validate", admissionregistrationv1.SideEffectClassNone
	return &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "polite"},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: "polite.example.dev", SideEffects: &none, AdmissionReviewVersions: []string{"v1"},
			ClientConfig: admissionregistrationv1.WebhookClientConfig{Service: &admissionregistrationv1.ServiceReference{Namespace: "default", Name: "polite", Path: &path}},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{"CREATE", "UPDATE"},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{kind.Group}, APIVersions: []string{"v1"}, Resources: []string{"greetings"}},
			}},
		}},
	}
}

func until(t *testing.T, what string, check func(context.Context) (bool, error)) {
	t.Helper()
	if err := wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, 30*time.Second, true, check); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

func TestEnvironment(t *testing.T) {
	begun := time.Now()
	environment := &envtest.Environment{
		CRDs:                  []*apiextensionsv1.CustomResourceDefinition{crd()},
		WebhookInstallOptions: envtest.WebhookInstallOptions{ValidatingWebhooks: []*admissionregistrationv1.ValidatingWebhookConfiguration{hooks()}},
	}
	config, err := environment.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("ready after %v", time.Since(begun))
	defer func() {
		begun := time.Now()
		if err := environment.Stop(); err != nil {
			t.Error(err)
		}
		t.Logf("stopped after %v", time.Since(begun))
	}()
	options := environment.WebhookInstallOptions
	manager, err := ctrl.NewManager(config, ctrl.Options{
		Metrics:       metricsserver.Options{BindAddress: "0"},
		WebhookServer: webhook.NewServer(webhook.Options{Host: options.LocalServingHost, Port: options.LocalServingPort, CertDir: options.LocalServingCertDir}),
	})
	if err != nil {
		t.Fatal(err)
	}
	manager.GetWebhookServer().Register("/validate", &webhook.Admission{Handler: polite{}})
	if err := ctrl.NewControllerManagedBy(manager).Named("greetings").For(greeting("", "")).Owns(&corev1.ConfigMap{}).Complete(reconciler{manager.GetClient()}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- manager.Start(ctx) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	direct, err := client.New(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}

	var last error
	defer func() {
		if t.Failed() {
			t.Log(last)
		}
	}()
	until(t, "the webhook answers", func(ctx context.Context) (bool, error) {
		last = direct.Create(ctx, greeting("hello", "hi"))
		return last == nil, nil
	})
	if err := direct.Create(ctx, greeting("loud", "HEY")); err == nil || !apierrors.IsForbidden(err) {
		t.Errorf("a loud greeting: %v", err)
	}
	until(t, "the reconciler acts", func(ctx context.Context) (bool, error) {
		made, object := &corev1.ConfigMap{}, greeting("", "")
		if direct.Get(ctx, client.ObjectKey{Namespace: "default", Name: "hello"}, made) != nil {
			return false, nil
		}
		if err := direct.Get(ctx, client.ObjectKey{Namespace: "default", Name: "hello"}, object); err != nil {
			return false, err
		}
		said, _, _ := unstructured.NestedString(object.Object, "status", "said")
		return made.Data["text"] == "hi" && said == "hi", nil
	})

	user, err := environment.AddUser(envtest.User{Name: "alice", Groups: []string{"dev", "ops"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	alice, err := client.New(user.Config(), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	review := &authv1.SelfSubjectReview{}
	if err := alice.Create(ctx, review); err != nil || review.Status.UserInfo.Username != "alice" || len(review.Status.UserInfo.Groups) != 3 {
		t.Errorf("alice is %v: %v", review.Status.UserInfo, err)
	}
	if err := alice.List(ctx, &corev1.SecretList{}); !apierrors.IsForbidden(err) {
		t.Errorf("alice reads secrets: %v", err)
	}
	kubectl, err := user.Kubectl()
	if err != nil {
		t.Fatal(err)
	}
	if out, _, err := kubectl.Run("auth", "whoami"); err != nil {
		t.Errorf("kubectl: %v %v", out, err)
	}

	// Only controllers make pods.
	labels := map[string]string{"app": "web"}
	replicas := int32(2)
	web := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
		Spec: appsv1.DeploymentSpec{Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "nginx"}}},
		}},
	}
	if err := direct.Create(ctx, web); err != nil {
		t.Fatal(err)
	}
	if os.Getenv("FLYBALL_CONTROLLERS") == "*" {
		until(t, "the Deployment is available", func(ctx context.Context) (bool, error) {
			err := direct.Get(ctx, client.ObjectKeyFromObject(web), web)
			return web.Status.AvailableReplicas == replicas, err
		})
		if err := direct.Delete(ctx, greeting("hello", "")); err != nil {
			t.Fatal(err)
		}
		until(t, "the ConfigMap is collected", func(ctx context.Context) (bool, error) {
			err := direct.Get(ctx, client.ObjectKey{Namespace: "default", Name: "hello"}, &corev1.ConfigMap{})
			return apierrors.IsNotFound(err), nil
		})
		return
	}
	time.Sleep(time.Second)
	pods := &corev1.PodList{}
	if err := direct.List(ctx, pods); err != nil || len(pods.Items) > 0 {
		t.Errorf("without controllers there are %d pods: %v", len(pods.Items), err)
	}
	nodes := &corev1.NodeList{}
	if err := direct.List(ctx, nodes); err != nil || len(nodes.Items) > 0 {
		t.Errorf("without controllers there are %d nodes: %v", len(nodes.Items), err)
	}
}
