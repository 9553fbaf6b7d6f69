package manifests_test

import (
	"maps"
	"net"
	"net/url"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"codeconnect.vmworld.com/vmgroup/test/must"
)

// locked are the trees whose server can destroy real VMs.
func locked() []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(trees)), func(tree string) bool { return tree == "simulator" })
}

func environment(c corev1.Container) map[string]string {
	env := map[string]string{}
	for _, v := range c.Env {
		env[v.Name] = v.Value
	}
	return env
}

// Metacontroller compares the host and port of a hook's URL with an entry's host; without an entry, Metacontroller calls without token and
// authority.
func TestEveryHookIsCalledOverTLSWithTheServersToken(t *testing.T) {
	for _, tree := range locked() {
		t.Run(tree, func(t *testing.T) {
			objects := build(t, tree)
			spec := decode[compositeController](t, objects, "CompositeController/vmgroup").Spec
			for name, hook := range spec.Hooks {
				u, err := url.Parse(hook.Webhook.URL)
				if err != nil || u.Scheme != "https" {
					t.Errorf("%s is called at %s", name, hook.Webhook.URL)
					continue
				}
				at := slices.IndexFunc(spec.EndpointConfigs, func(c endpointConfig) bool { return strings.EqualFold(c.Host, u.Host) })
				if at < 0 {
					t.Errorf("%s: no entry of endpointConfigs for %s", name, u.Host)
					continue
				}
				c := spec.EndpointConfigs[at]
				if c.CABundle == nil || c.CABundle.SecretRef != (keyRef{"vmgroup-hook-client", "vmgroup-system", "ca.crt"}) {
					t.Errorf("%s: trusts %+v", name, c.CABundle)
				}
				if c.Authorization == nil || c.Authorization.Type != "Bearer" || c.Authorization.SecretRef != (keyRef{"vmgroup-hook-token", "vmgroup-system", "token"}) {
					t.Errorf("%s: presents %+v", name, c.Authorization)
				}
				_, _, container := pod(t, objects)
				wantsCertificate := environment(container)["VMGROUP_CLIENT_CA_FILE"] != ""
				if wantsCertificate != (c.ClientTLS != nil) || wantsCertificate && (c.ClientTLS.SecretRef.Name != c.CABundle.SecretRef.Name ||
					c.ClientTLS.SecretRef.Namespace != "vmgroup-system" || c.ClientTLS.CertKey != "tls.crt" || c.ClientTLS.PrivateKeyKey != "tls.key") {
					t.Errorf("%s: the server requires a certificate: %v; Metacontroller presents %+v", name, wantsCertificate, c.ClientTLS)
				}
			}
		})
	}
}

func TestEveryFileThatTheServerReadsIsInAMountedSecret(t *testing.T) {
	secrets := map[string]string{ // the Secrets by the variable that names their file
		"VMGROUP_TLS_CERT_FILE": "vmgroup-tls", "VMGROUP_TLS_PRIVATE_KEY_FILE": "vmgroup-tls", "VMGROUP_CLIENT_CA_FILE": "vmgroup-tls",
		"VMGROUP_TOKEN_FILE": "vmgroup-hook-token", "VMGROUP_READER_TOKEN_FILE": "vmgroup-reader-token",
	}
	keys := map[string][]string{
		"VMGROUP_TLS_CERT_FILE": {"tls.crt"}, "VMGROUP_TLS_PRIVATE_KEY_FILE": {"tls.key"}, "VMGROUP_CLIENT_CA_FILE": {"ca.crt"},
		"VMGROUP_TOKEN_FILE": {"token", "token-next"}, "VMGROUP_READER_TOKEN_FILE": {"token", "token-next"},
	}
	for _, tree := range locked() {
		_, pod, container := pod(t, build(t, tree))
		mounted := map[string]string{} // Secrets by path
		for _, volume := range pod.Volumes {
			at := slices.IndexFunc(container.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == volume.Name })
			if at < 0 {
				t.Errorf("%s: nothing mounts the volume %s", tree, volume.Name)
				continue
			}
			if volume.Secret == nil {
				continue
			}
			mounted[container.VolumeMounts[at].MountPath] = volume.Secret.SecretName
			if optional := volume.Secret.SecretName == "vmgroup-reader-token"; optional != isTrue(volume.Secret.Optional) {
				t.Errorf("%s: a pod starts without %s: %v", tree, volume.Secret.SecretName, !optional)
			}
			if volume.Secret.SecretName != "vc-creds" && len(volume.Secret.Items) > 0 {
				t.Errorf("%s: later keys of %s don't arrive", tree, volume.Secret.SecretName)
			}
			if *volume.Secret.DefaultMode&0o007 != 0 {
				t.Errorf("%s: every user can read %s", tree, volume.Secret.SecretName)
			}
		}
		env := environment(container)
		for variable, secret := range secrets {
			value, given := env[variable]
			if !given {
				if variable != "VMGROUP_CLIENT_CA_FILE" {
					t.Errorf("%s: %s is not set", tree, variable)
				}
				continue
			}
			var found []string
			for _, file := range strings.Split(value, ",") {
				if mounted[path.Dir(file)] != secret {
					t.Errorf("%s: %s is %s, which belongs to %q; want %q", tree, variable, file, mounted[path.Dir(file)], secret)
				}
				found = append(found, path.Base(file))
			}
			if !slices.Equal(found, keys[variable]) {
				t.Errorf("%s: %s reads the keys %v; want %v", tree, variable, found, keys[variable])
			}
		}
	}
}

func TestOnlyTheSimulatorIsOpenToEveryone(t *testing.T) {
	for tree := range trees {
		objects := build(t, tree)
		open := strings.Contains(strings.ToLower(string(objects["Deployment/vmgroup"])), "allow-unauthenticated") ||
			strings.Contains(string(objects["Deployment/vmgroup"]), "VMGROUP_ALLOW_")
		if open != (tree == "simulator") {
			t.Errorf("%s: open to everyone: %v; want %v", tree, open, tree == "simulator")
		}
		controller := decode[compositeController](t, objects, "CompositeController/vmgroup").Spec
		if tree == "simulator" && len(controller.EndpointConfigs) > 0 {
			t.Error("the simulator's controller needs Secrets")
		}
		_, pod, container := pod(t, objects)
		if tree != "simulator" {
			continue
		}
		for name := range environment(container) {
			if strings.Contains(name, "TOKEN") || strings.Contains(name, "TLS") {
				t.Errorf("the simulator gets %s", name)
			}
		}
		for _, volume := range pod.Volumes {
			if volume.Secret != nil {
				t.Errorf("the simulator needs the Secret %s", volume.Secret.SecretName)
			}
		}
	}
}

func TestPortsMatchWhatTheServerListensOn(t *testing.T) {
	for tree := range trees {
		objects := build(t, tree)
		_, _, container := pod(t, objects)
		env, ports := environment(container), map[string]int32{}
		for _, p := range container.Ports {
			ports[p.Name] = p.ContainerPort
		}
		if len(ports) != 2 || len(container.Ports) != 2 {
			t.Errorf("%s: ports %v", tree, container.Ports)
		}
		for name, variable := range map[string]string{"hooks": "VMGROUP_LISTEN", "health": "VMGROUP_HEALTH_LISTEN"} {
			_, port, err := net.SplitHostPort(env[variable])
			if err != nil || port != strconv.Itoa(int(ports[name])) {
				t.Errorf("%s: %s is %q, but the port %s is %d", tree, variable, env[variable], name, ports[name])
			}
		}
		service := decode[corev1.Service](t, objects, "Service/vmgroup")
		for i, name := range []string{"hooks", "health"} {
			p := service.Spec.Ports[i]
			if len(service.Spec.Ports) != 2 || p.Name != name || p.TargetPort.StrVal != name || p.Port != ports[name] {
				t.Errorf("%s: the service's ports: %+v", tree, service.Spec.Ports)
			}
		}
		for _, rule := range decode[networkingv1.NetworkPolicy](t, objects, "NetworkPolicy/vmgroup").Spec.Ingress {
			if len(rule.From) == 0 || len(rule.Ports) != 1 || rule.Ports[0].Port.StrVal != "hooks" {
				t.Errorf("%s: the network policy allows %+v", tree, rule)
			}
		}
		for _, probe := range []*corev1.Probe{container.StartupProbe, container.ReadinessProbe, container.LivenessProbe} {
			if probe.HTTPGet.Port.StrVal != "health" || probe.HTTPGet.Scheme == corev1.URISchemeHTTPS {
				t.Errorf("%s: the probe uses %+v", tree, probe.HTTPGet)
			}
		}
	}
}

// cert-manager must make the Secrets that both sides read, with a certificate for the name that Metacontroller calls.
func TestCertManagerMakesTheSecretsThatTheManifestsRead(t *testing.T) {
	objects := build(t, "cert-manager")
	type certificate struct {
		Spec struct {
			SecretName string
			DNSNames   []string `json:"dnsNames"`
			Usages     []string
			IsCA       bool `json:"isCA"`
			IssuerRef  struct{ Kind, Name string }
		}
	}
	read := func(name string) certificate {
		t.Helper()
		raw, there := objects["Certificate/"+name]
		if !there {
			t.Fatalf("the Certificate %s doesn't exist", name)
		}
		var c certificate
		must.Succeed(t, yamlLoose(raw, &c))
		if _, there := objects["Issuer/"+c.Spec.IssuerRef.Name]; !there || c.Spec.IssuerRef.Kind != "Issuer" {
			t.Errorf("%s: issued by %+v", name, c.Spec.IssuerRef)
		}
		return c
	}
	server, client, authority := read("vmgroup-tls").Spec, read("vmgroup-hook-client").Spec, read("vmgroup-authority").Spec
	service := decode[corev1.Service](t, objects, "Service/vmgroup")
	if server.SecretName != "vmgroup-tls" || !slices.Contains(server.DNSNames, service.Name+"."+service.Namespace+".svc") ||
		!slices.Contains(server.Usages, "server auth") || slices.Contains(server.Usages, "client auth") {
		t.Errorf("server: %+v", server)
	}
	if client.SecretName != "vmgroup-hook-client" || !slices.Contains(client.Usages, "client auth") || slices.Contains(client.Usages, "server auth") {
		t.Errorf("Metacontroller: %+v", client)
	}
	if !authority.IsCA || server.IsCA || client.IsCA || server.IssuerRef != client.IssuerRef {
		t.Errorf("the certificates are issued by %v and %v; want one authority for both, and that neither can sign others", server.IssuerRef, client.IssuerRef)
	}
	if !strings.Contains(string(objects["Issuer/"+server.IssuerRef.Name]), authority.SecretName) {
		t.Error("another authority signs them")
	}
}

func TestPrometheusCanReachTheMetricsAndScrapesThem(t *testing.T) {
	objects := build(t, "monitoring")
	rule := decode[networkingv1.NetworkPolicy](t, objects, "NetworkPolicy/vmgroup-metrics").Spec.Ingress[0]
	var ports []string
	for _, p := range rule.Ports {
		ports = append(ports, p.Port.StrVal)
	}
	if !slices.Equal(ports, []string{"health", "hooks"}) || rule.From[0].PodSelector == nil || rule.From[0].NamespaceSelector == nil {
		t.Errorf("the network policy allows %+v", rule)
	}
	if !strings.Contains(string(objects["ServiceMonitor/vmgroup"]), `"port":"health"`) {
		t.Errorf("the ServiceMonitor scrapes %s", objects["ServiceMonitor/vmgroup"])
	}
}

// The README's commands must make all Secrets that the manifests read.
func TestTheReadmesCommandsMakeEverySecretThatTheManifestsRead(t *testing.T) {
	text, err := os.ReadFile("README.md")
	must.Succeed(t, err)
	for _, command := range []string{
		"create secret generic vmgroup-tls --type=kubernetes.io/tls --from-file=tls.crt --from-file=tls.key --from-file=ca.crt",
		"create secret generic vmgroup-hook-client --from-file=ca.crt",
		"create secret generic vmgroup-hook-token --from-literal=token=",
		"create secret generic vmgroup-reader-token --from-literal=token=",
		"subjectAltName=DNS:vmgroup.vmgroup-system.svc",
	} {
		if !strings.Contains(string(text), command) {
			t.Errorf("the README doesn't say: %s", command)
		}
	}
}
