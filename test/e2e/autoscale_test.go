package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"codeconnect.vmworld.com/vmgroup/test/must"
)

// recipe is the HorizontalPodAutoscaler in the documents.
var recipe = regexp.MustCompile("(?s)```yaml\n(apiVersion: autoscaling/v2\n.*?)```")

// load serves the external metric of the recipe, as an adapter would: requests per second of the whole group.
func load(t *testing.T, requests *atomic.Int64) *httptest.Server {
	t.Helper()
	const root = "/apis/external.metrics.k8s.io/v1beta1"
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path != root+"/namespaces/shop/requests_per_second" {
			_, _ = fmt.Fprint(w, `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"external.metrics.k8s.io/v1beta1","resources":[]}`)
			return
		}
		if selector := r.URL.Query().Get("labelSelector"); selector != "vmgroup=web" {
			t.Errorf("the autoscaler asks for the metric of %q; want %q", selector, "vmgroup=web")
		}
		_, _ = fmt.Fprintf(w, `{"kind":"ExternalMetricValueList","apiVersion":"external.metrics.k8s.io/v1beta1","metadata":{},"items":[
			{"metricName":"requests_per_second","metricLabels":{"vmgroup":"web"},"timestamp":%q,"value":"%d"}]}`, time.Now().UTC().Format(time.RFC3339), requests.Load())
	}))
	t.Cleanup(s.Close)
	return s
}

// The test runs the autoscaler of Kubernetes itself, with the rights that it has in every cluster.
func TestAnAutoscalerScalesAGroupAsTheDocumentsSay(t *testing.T) {
	k := api(t)
	must.Succeed(t, k.StartAutoscaler())
	namespace := k.namespace(t, "shop")
	page, err := os.ReadFile("../../docs/day-to-day.md")
	must.Succeed(t, err)
	found := recipe.FindSubmatch(page)
	if found == nil {
		t.Fatal("the documents have no HorizontalPodAutoscaler")
	}
	var requests atomic.Int64
	requests.Store(480)
	port := load(t, &requests).URL
	port = port[strings.LastIndex(port, ":")+1:]
	apply := func(name, text string) {
		t.Helper()
		file := filepath.Join(t.TempDir(), name)
		must.Succeed(t, os.WriteFile(file, []byte(text), 0o600))
		k.kubectl(t, "apply", "-f", file)
	}
	apply("adapter.yaml", `
apiVersion: v1
kind: Service
metadata: {name: adapter, namespace: shop}
spec: {type: ExternalName, externalName: localhost}
---
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1beta1.external.metrics.k8s.io}
spec: {group: external.metrics.k8s.io, version: v1beta1, groupPriorityMinimum: 100, versionPriority: 100, insecureSkipTLSVerify: true, service: {name: adapter, namespace: shop, port: `+port+`}}
`)
	k.stored(t, namespace, "web", map[string]any{"replicas": int64(3)}, strings.ReplaceAll(report, `"currentReplicas": 2`, `"currentReplicas": 3`))
	apply("hpa.yaml", strings.ReplaceAll(string(found[1]), "stabilizationWindowSeconds: 600", "stabilizationWindowSeconds: 0"))
	replicas := func(want string) {
		t.Helper()
		for began := time.Now(); ; time.Sleep(200 * time.Millisecond) {
			got := k.kubectl(t, "-n", namespace, "get", "vg/web", "-o", "jsonpath={.spec.replicas}")
			if got == want {
				return
			}
			if time.Since(began) > 2*time.Minute {
				t.Fatalf("%s replicas, want %s: %s", got, want, k.kubectl(t, "-n", namespace, "describe", "hpa", "web"))
			}
		}
	}
	replicas("5")
	requests.Store(90)
	replicas("2")
	k.kubectl(t, "delete", "apiservice", "v1beta1.external.metrics.k8s.io")
	k.kubectl(t, "-n", namespace, "delete", "hpa", "web")
}
