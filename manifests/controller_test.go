package manifests_test

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
)

// compositeController has the keys of Metacontroller's kind that the manifests can use. The struct lacks the others (etag, revisionHistory,
// statusChecks), so that a strict reading of manifests with them fails.
type compositeController struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Spec struct {
		ParentResource struct {
			APIVersion          string                `json:"apiVersion"`
			Resource            string                `json:"resource"`
			IgnoreStatusChanges bool                  `json:"ignoreStatusChanges"`
			LabelSelector       *metav1.LabelSelector `json:"labelSelector"`
		} `json:"parentResource"`
		GenerateSelector    bool             `json:"generateSelector"`
		ResyncPeriodSeconds int32            `json:"resyncPeriodSeconds"`
		EndpointConfigs     []endpointConfig `json:"endpointConfigs"`
		ChildResources      []struct {
			APIVersion     string `json:"apiVersion"`
			Resource       string `json:"resource"`
			UpdateStrategy struct {
				Method string `json:"method"`
			} `json:"updateStrategy"`
		} `json:"childResources"`
		Hooks map[string]struct {
			Version string `json:"version"`
			Webhook struct {
				URL     string          `json:"url"`
				Timeout metav1.Duration `json:"timeout"`
			} `json:"webhook"`
		} `json:"hooks"`
	} `json:"spec"`
}

// keyRef is a key of a Secret. endpointConfig has the fields of Metacontroller's EndpointConfig that the manifests can use: every Secret
// needs its namespace, because the kind has none of its own.
type keyRef struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
	Key       string `json:"key"`
}

type endpointConfig struct {
	Host     string `json:"host"`
	CABundle *struct {
		SecretRef keyRef `json:"secretRef"`
	} `json:"caBundle"`
	Authorization *struct {
		Type      string `json:"type"`
		SecretRef keyRef `json:"secretRef"`
	} `json:"authorization"`
	ClientTLS *struct {
		SecretRef     keyRef `json:"secretRef"`
		CertKey       string `json:"certKey"`
		PrivateKeyKey string `json:"privateKeyKey"`
	} `json:"clientTLS"`
}

func TestTheControllerIsSetUpAsTheHooksExpect(t *testing.T) {
	spec := decode[compositeController](t, build(t, "root"), "CompositeController/vmgroup").Spec
	if got := spec.ParentResource.APIVersion; got != v1alpha1.GroupVersion.String() {
		t.Errorf("parent: apiVersion %q; want %q", got, v1alpha1.GroupVersion.String())
	}
	if got := spec.ParentResource.Resource; got != "vmgroups" {
		t.Errorf("parent: resource %q; want %q", got, "vmgroups")
	}
	if !spec.ParentResource.IgnoreStatusChanges {
		t.Error("status changes call the hooks again")
	}
	if !spec.GenerateSelector {
		t.Error("generateSelector is off: every VmGroup would need a selector")
	}
	if got := spec.ResyncPeriodSeconds; got < 1 || got > 300 {
		t.Errorf("resyncPeriodSeconds is %d: no safety net", got)
	}
	var kinds []string
	for _, child := range spec.ChildResources {
		kinds = append(kinds, child.APIVersion+" "+child.Resource)
		if child.UpdateStrategy.Method != "InPlace" {
			t.Errorf("%s has the update strategy %q, want InPlace", child.Resource, child.UpdateStrategy.Method)
		}
	}
	if want := []string{"v1 configmaps", "v1 services", "discovery.k8s.io/v1 endpointslices"}; !slices.Equal(kinds, want) {
		t.Errorf("the kinds of children are %q, but the hooks answer %q", kinds, want)
	}
}

func TestTheHooksCallTheService(t *testing.T) {
	for tree := range trees {
		objects := build(t, tree)
		service := decode[corev1.Service](t, objects, "Service/vmgroup")
		hooks := decode[compositeController](t, objects, "CompositeController/vmgroup").Spec.Hooks
		if len(hooks) != 3 {
			t.Errorf("%s: %d hooks; want 3", tree, len(hooks))
		}
		for _, name := range []string{"customize", "sync", "finalize"} {
			hook := hooks[name]
			scheme := "https"
			if tree == "simulator" {
				scheme = "http"
			}
			want := fmt.Sprintf("%s://%s.%s.svc:%d/%s", scheme, service.Name, service.Namespace, service.Spec.Ports[0].Port, name)
			if hook.Webhook.URL != want {
				t.Errorf("%s: %s calls %q, but the service is %q", tree, name, hook.Webhook.URL, want)
			}
			if hook.Version != "v2" {
				t.Errorf("%s: %s has version %q, want v2", tree, name, hook.Version)
			}
			if hook.Webhook.Timeout.Duration <= 0 {
				t.Errorf("%s: %s has no timeout", tree, name)
			}
		}
		if service.Spec.SessionAffinity != corev1.ServiceAffinityClientIP {
			t.Errorf("%s: the service has no ClientIP affinity", tree)
		}
	}
}
