package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

// secret is the data of a Secret that Helm made.
func secret(t *testing.T, all objects, name string) map[string][]byte {
	t.Helper()
	data := map[string][]byte{}
	encoded, _ := at(all["Secret/"+name], "data").(map[string]any)
	for key, value := range encoded {
		plain, err := base64.StdEncoding.DecodeString(value.(string))
		succeed(t, err)
		data[key] = plain
	}
	return data
}

// fit checks the Secrets of the certificates: each side trusts the other.
func fit(t *testing.T, all objects) {
	t.Helper()
	server, client := secret(t, all, "vmgroup-tls"), secret(t, all, "vmgroup-hook-client")
	authorities := x509.NewCertPool()
	if !authorities.AppendCertsFromPEM(client["ca.crt"]) || string(client["ca.crt"]) != string(server["ca.crt"]) {
		t.Fatal("server and caller have different authorities")
	}
	for _, c := range []struct {
		data  map[string][]byte
		usage x509.ExtKeyUsage
		names []string
	}{
		{server, x509.ExtKeyUsageServerAuth, []string{"vmgroup.vmgroup-system.svc", "vmgroup.vmgroup-system"}},
		{client, x509.ExtKeyUsageClientAuth, []string{""}},
	} {
		pair, err := tls.X509KeyPair(c.data["tls.crt"], c.data["tls.key"])
		succeed(t, err)
		for _, name := range c.names {
			if _, err := pair.Leaf.Verify(x509.VerifyOptions{DNSName: name, Roots: authorities, KeyUsages: []x509.ExtKeyUsage{c.usage}}); err != nil {
				t.Errorf("%q: %v", name, err)
			}
		}
		if left := time.Until(pair.Leaf.NotAfter); left < 9*365*24*time.Hour {
			t.Errorf("%s: ends in %s; want at least %s", pair.Leaf.Subject, left, 9*365*24*time.Hour)
		}
	}
}

func TestTheKeysThatHelmMakesMatch(t *testing.T) {
	all := rendered(t)
	fit(t, all)
	token := secret(t, all, "vmgroup-hook-token")["token"]
	if len(token) < 32 || string(token) == string(secret(t, rendered(t), "vmgroup-hook-token")["token"]) {
		t.Errorf("the token %s can be guessed", token)
	}
	if reader := secret(t, all, "vmgroup-reader-token")["token"]; len(reader) < 32 || string(reader) == string(token) {
		t.Errorf("the reader's token %s can be guessed, or opens the hooks", reader)
	}
}

func TestOnlyGeneratedKeysAreSecretsOfHelm(t *testing.T) {
	for _, values := range []string{"simulator=true", "hooks.keys=existing", "hooks.keys=cert-manager"} {
		for id, o := range rendered(t, values) {
			if o["kind"] == "Secret" {
				t.Errorf("%s: %s", values, id)
			}
		}
	}
}

// Argo CD, Flux and others render the chart again and again, and apply what differs: with new tokens in each rendering, Metacontroller
// and the server would have different ones, and the server would answer no hook call.
func TestEachRenderingHasTheSameBytes(t *testing.T) {
	const whole = "hooks.clientCertificates=true,monitoring.enabled=true,tenants=true,vcenters={east},caller.grantRights=true,settings.VC_POOL=a,settings.VC_FOLDER=b"
	render := func(values string) string {
		t.Helper()
		text, err := helm(t, "template", "vmgroup", "--namespace", "vmgroup-system", "--set", values)
		succeed(t, err)
		return text
	}
	for _, mode := range []string{"hooks.keys=cert-manager", "hooks.keys=existing", "simulator=true", "simulator=true,hooks.keys=cert-manager"} {
		for _, values := range []string{mode, mode + "," + whole, mode + ",clusterObjects=false,vcenter.name=east"} {
			if one, two := render(values), render(values); one != two {
				t.Errorf("%s: two renderings differ:\n%s", values, gocmp.Diff(one, two))
			}
		}
	}
	one, two := rendered(t), rendered(t) // in the mode for Helm alone, two renderings differ only in the Secrets
	for id := range one {
		if strings.HasPrefix(id, "Secret/") {
			delete(one, id)
			delete(two, id)
		}
	}
	if diff := gocmp.Diff(one, two); diff != "" {
		t.Errorf("two renderings differ in more than their Secrets:\n%s", diff)
	}
}

// A second install has its own names for the cluster-wide objects that it needs, and leaves the shared ones to the first install.
func TestASecondInstallSharesNoObjectWithTheFirst(t *testing.T) {
	cluster := map[string]bool{}
	for id, o := range rendered(t) {
		cluster[id] = at(o, "metadata", "namespace") == nil
	}
	for id, o := range rendered(t, "clusterObjects=false", "vcenter.name=two") {
		if at(o, "metadata", "namespace") == nil && cluster[id] {
			t.Errorf("both have %s", id)
		}
	}
}

func TestTheMetacontrollerOfTheChartCanCallTheHooksAndHasTheRights(t *testing.T) {
	const values = "metacontroller.enabled=true"
	if _, err := helm(t, "template", "vmgroup", "--set", values); err == nil || !strings.Contains(err.Error(), "install it first, or use the chart of a release") {
		t.Errorf("without that chart: %v; want an error and %q in the text", err, "install it first, or use the chart of a release")
	}
	stub := filepath.Join(t.TempDir(), "metacontroller-helm-4.17.2.tgz")
	succeed(t, (release{}).writeTar(stub, []file{{name: "metacontroller-helm/Chart.yaml", mode: 0o644, content: []byte("{apiVersion: v2, name: metacontroller-helm, version: 4.17.2}")}}, true))
	dir := filepath.Join(t.TempDir(), "vmgroup")
	succeed(t, copyChart(repository, dir, release{version: "v0.0.0-dev", image: "vmgroup", tag: "dev"}, stub))
	text, err := helmOn(t, dir, "template", "vmgroup", "--namespace", "vmgroup-system", "--set", values)
	succeed(t, err)
	all := parse(t, text)
	subjects, _ := at(all["ClusterRoleBinding/vmgroup-metacontroller"], "subjects").([]any)
	if len(subjects) != 1 || subjects[0].(map[string]any)["namespace"] != "vmgroup-system" || subjects[0].(map[string]any)["name"] != "metacontroller" {
		t.Errorf("the rights are bound to %v", subjects)
	}
	ingress, _ := at(all["NetworkPolicy/vmgroup"], "spec", "ingress").([]any)
	from := ingress[0].(map[string]any)["from"].([]any)[0].(map[string]any)
	if at(from, "podSelector", "matchLabels", "app.kubernetes.io/name") != "metacontroller" || from["namespaceSelector"] != nil {
		t.Errorf("the hooks are open to %v", from)
	}
}

// clientFlags are the limits that the chart gives Metacontroller, as one writes them on a command line.
func clientFlags(t *testing.T) string {
	t.Helper()
	var values struct {
		Metacontroller struct{ CommandArgs []string }
	}
	text, err := os.ReadFile(filepath.Join(repository, "charts/vmgroup/values.yaml"))
	succeed(t, err)
	succeed(t, yaml.Unmarshal(text, &values))
	flags := slices.DeleteFunc(values.Metacontroller.CommandArgs, func(arg string) bool {
		return !strings.HasPrefix(arg, "--client-go-") && !strings.HasPrefix(arg, "--workers=")
	})
	if len(flags) != 3 {
		t.Errorf("the chart has %v; want 3 of them", flags)
	}
	return strings.Join(flags, " ")
}

// The page docs/install.md recommends what the chart sets, and the figures in the documents are measured with it.
func TestMetacontrollersFlagsAreTheSameInTheChartTheDocumentsAndTheFigures(t *testing.T) {
	flags := clientFlags(t)
	for path, places := range map[string][]string{
		"docs/install.md":          {"`" + flags + "`, as the chart does", "| up to 1,000 | `" + flags + "` (the chart's) |"},
		"test/e2e/figures_test.go": {`flag.String("figures.metacontroller", "` + flags + `", `},
	} {
		text, err := os.ReadFile(filepath.Join(repository, path))
		succeed(t, err)
		for _, place := range places {
			if !strings.Contains(string(text), place) {
				t.Errorf("%s doesn't say %s", path, place)
			}
		}
	}
}

// The release workflow runs this test, with METACONTROLLER_CHART=<archive of Metacontroller's chart>.
func TestMetacontrollersChartMakesWhatOursRelyOn(t *testing.T) {
	archive := os.Getenv("METACONTROLLER_CHART")
	if archive == "" {
		t.Skip("METACONTROLLER_CHART=<archive of Metacontroller's chart> is not set")
	}
	dir := filepath.Join(t.TempDir(), "vmgroup")
	succeed(t, copyChart(repository, dir, release{version: "v0.0.0-dev", image: "vmgroup", tag: "dev"}, archive))
	text, err := helmOn(t, dir, "template", "vmgroup", "--namespace", "vmgroup-system", "--include-crds", "--set", "metacontroller.enabled=true")
	succeed(t, err)
	all := parse(t, text)
	pod, _ := at(all["StatefulSet/metacontroller"], "spec", "template").(map[string]any)
	if at(pod, "metadata", "labels", "app.kubernetes.io/name") != "metacontroller" { // the NetworkPolicy selects this label
		t.Errorf("the pods' labels are %v", at(pod, "metadata", "labels"))
	}
	if at(pod, "spec", "serviceAccountName") != "metacontroller" || all["ServiceAccount/metacontroller"] == nil {
		t.Errorf("the pods are %v", at(pod, "spec", "serviceAccountName"))
	}
	if args := fmt.Sprint(at(pod, "spec", "containers")); !strings.Contains(args, clientFlags(t)) {
		t.Errorf("the containers are %s; want %q in the text", args, clientFlags(t))
	}
	for _, id := range []string{"CustomResourceDefinition/compositecontrollers.metacontroller.k8s.io", "CompositeController/vmgroup"} {
		if all[id] == nil {
			t.Errorf("there is no %s", id)
		}
	}
	for _, rule := range at(all["ClusterRole/metacontroller"], "rules").([]any) {
		if strings.Contains(fmt.Sprint(at(rule.(map[string]any), "apiGroups")), "*") {
			t.Errorf("Metacontroller can do %v", rule)
		}
	}
}

func TestTheScriptPrintsKeysThatMatch(t *testing.T) {
	if _, err := exec.LookPath("openssl"); err != nil {
		t.Skip(err)
	}
	script := exec.Command(repository + "/manifests/secrets.sh")
	script.Env = append(os.Environ(), "VC_HOST=vc.example.com", "VC_USER=VSPHERE.LOCAL\\operator", "VC_PASS=p$ '\"x\\n")
	text, err := script.Output()
	succeed(t, err)
	all := parse(t, string(text))
	fit(t, all)
	credentials := secret(t, all, "vc-creds")
	if string(credentials["VC_USER"]) != "VSPHERE.LOCAL\\operator" || string(credentials["VC_PASS"]) != "p$ '\"x\\n" || string(credentials["VC_HOST"]) != "vc.example.com" {
		t.Errorf("the credentials are %q", credentials)
	}
	if token := secret(t, all, "vmgroup-hook-token")["token"]; len(token) != 64 {
		t.Errorf("the token has %d bytes; want 64", len(token))
	}
	if reader := secret(t, all, "vmgroup-reader-token")["token"]; len(reader) != 64 || string(reader) == string(secret(t, all, "vmgroup-hook-token")["token"]) {
		t.Errorf("the reader's token has %d bytes, or opens the hooks", len(reader))
	}
	if all["Namespace/vmgroup-system"] == nil {
		t.Error("the rendering has no namespace vmgroup-system")
	}
}
