package main

import (
	"crypto/tls"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"codeconnect.vmworld.com/vmgroup/test/must"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// anywhere is an address that the server does not take for loopback; the test calls it only from this machine.
const anywhere = "0.0.0.0:0"

func TestWithoutAuthenticationTheServerListensOnlyOnLoopback(t *testing.T) {
	t.Parallel()
	k := newKeys(t)
	lock := k.flags()
	pair, tokens := lock[:4], lock[4:8]
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"--listen", anywhere}, "--listen 0.0.0.0:0: others can reach it, and anyone who calls the hooks can create and destroy VMs: set --token-file or --client-ca-file"},
		{[]string{"--listen", ":0"}, "or set --allow-unauthenticated"},
		{[]string{"--listen", "[::]:0"}, "or set --allow-unauthenticated"},
		{append([]string{"--listen", anywhere}, pair...), "or set --allow-unauthenticated"},
		{append([]string{"--listen", anywhere, "--allow-plain-http"}, pair...), "or set --allow-unauthenticated"},
		{append([]string{"--listen", anywhere}, tokens...), "without TLS they can read the token"},
		{append([]string{"--listen", anywhere, "--allow-unauthenticated"}, tokens...), "where something else encrypts the connection, --allow-plain-http"},
		{[]string{"--token-file", k.path("nothing")}, "--token-file: there is no token in"},
		{[]string{"--tls-cert-file", k.path("tls.crt")}, "--tls-cert-file and --tls-private-key-file: set both, or neither"},
		{[]string{"--client-ca-file", k.path("ca.crt")}, "--client-ca-file requires --tls-cert-file"},
		{[]string{"--health-listen", "nowhere"}, "--health-listen nowhere"},
		{append([]string{"--simulator-listen", anywhere}, lock...), "--simulator-listen 0.0.0.0:0: others can reach it"},
		// A shell variable that is not set must not disable authentication.
		{[]string{"--token-file", ""}, "--token-file: is empty"},
		{append([]string{"--client-ca-file="}, lock...), "--client-ca-file: is empty"},
	} {
		out, err := vmgroup(nil, append([]string{"serve", "--simulator", "--health-listen", "127.0.0.1:0"}, c.args...)...).CombinedOutput()
		if err == nil || !strings.Contains(string(out), c.says) || strings.Count(string(out), "\n") > 2 {
			t.Errorf("%v: %v: %s", c.args, err, out)
		}
	}
}

func TestServingWithoutProtectionNeedsAFlagAndWarns(t *testing.T) {
	t.Parallel()
	k := newKeys(t)
	tokens := k.flags()[4:8]
	for _, c := range []struct {
		env, args []string
		warns     string
	}{
		{nil, []string{"--listen", anywhere, "--allow-unauthenticated"}, "anyone who can reach this address can create and destroy VMs"},
		{nil, []string{"--simulator-listen", anywhere, "--allow-unauthenticated"}, "anyone who can reach the embedded vCenter"},
		{[]string{"VMGROUP_ALLOW_UNAUTHENTICATED=true"}, []string{"--listen", anywhere}, "anyone who can reach this address can create and destroy VMs"},
		{nil, append([]string{"--listen", anywhere, "--allow-plain-http"}, tokens...), "others on the network can read the token"},
		{nil, append([]string{"--listen", anywhere}, k.flags()...), ""},
		{nil, nil, ""},
	} {
		p := serve(t, c.env, append([]string{"--simulator"}, c.args...)...)
		p.stop(t)
		warned := strings.Contains(p.logged(), "--allow-") // a slow machine causes other warnings
		if warned != (c.warns != "") || !strings.Contains(p.logged(), c.warns) {
			t.Errorf("%v: %s", c.args, p.logged())
		}
	}
}

// Kubernetes restarts a server whose probes get no connection, so one client address must not take all connections, or keep idle ones.
func TestOneAddressCannotUseAllProbeConnections(t *testing.T) {
	t.Parallel()
	if l := healthLimits; l.PerAddress < 8 || l.Connections < 16*l.PerAddress || l.Idle > 10*time.Second {
		t.Errorf("got the limits %+v of the health address; want at least 8 connections for an address, 16 times as many in all, and idle ones for at most 10s", l)
	}
}

func TestInsecureWarnsAtEachStart(t *testing.T) {
	t.Parallel()
	vc := startVCenter(t, vcsim.Config{})
	password, _ := vc.URL().User.Password()
	env := []string{"VC_HOST=" + vc.URL().Host, "VC_USER=" + vc.URL().User.Username(), "VC_PASS=" + password}
	for range 2 {
		p := serve(t, env, "--insecure")
		p.stop(t)
		if strings.Count(p.logged(), "--insecure: vCenter's certificate is not verified") != 1 {
			t.Errorf("log: %s", p.logged())
		}
	}
}

func do(t *testing.T, c *http.Client, method, url string) (code int, body string) {
	t.Helper()
	var text io.Reader
	if method == http.MethodPost {
		raw, err := os.ReadFile("../../manifests/samples/hooks/sync.json")
		must.Succeed(t, err)
		text = strings.NewReader(string(raw))
	}
	r, err := http.NewRequest(method, url, text)
	must.Succeed(t, err)
	r.Header.Set("Content-Type", "application/json")
	response, err := c.Do(r)
	if err != nil {
		return 0, err.Error()
	}
	defer response.Body.Close() //nolint:errcheck // the body was only read
	raw, _ := io.ReadAll(response.Body)
	return response.StatusCode, string(raw)
}

// The test does the key rotation of SECURITY.md with a running process.
func TestTokensAndCertificatesChangeWithoutARestart(t *testing.T) {
	t.Parallel()
	k := newKeys(t)
	p := serve(t, nil, append([]string{"--simulator"}, k.flags()...)...)
	old, next, reader := k.client(hookToken), k.client(nextToken), k.client(readerToken)
	want := func(what string, c *http.Client, method, path string, code int) {
		t.Helper()
		eventually(t, what, func() bool { got, _ := do(t, c, method, p.url+path); return got == code })
	}
	want("the token opens the hooks", old, "POST", "/sync", 200)
	want("another token does not", next, "POST", "/sync", 401)
	want("no token does not", k.client(""), "POST", "/sync", 401)
	want("a reader's token does not", reader, "POST", "/sync", 403)
	want("a reader can't plan", reader, "POST", "/plan", 403)
	want("a reader can read", reader, "GET", "/groups", 200)
	want("reading requires a token", k.client(""), "GET", "/groups", 401)
	want("a path that doesn't exist is refused like the others", k.client(""), "GET", "/nothing", 401)
	want("a reader sees the page", reader, "GET", "/", 200)
	want("the page requires a token", k.client(""), "GET", "/ui/groups/default/web", 401)
	want("the form has its style", k.client(""), "GET", "/ui/assets/style.css", 200)

	k.write("token-next", nextToken)
	want("both tokens open the hooks", next, "POST", "/sync", 200)
	want("both tokens open the hooks", old, "POST", "/sync", 200)
	k.write("token", nextToken)
	want("the old token is refused", old, "POST", "/sync", 401)
	want("the new token is accepted", next, "POST", "/sync", 200)

	serial := func() string {
		conn, err := tls.Dial("tcp", strings.TrimPrefix(p.url, "https://"), &tls.Config{InsecureSkipVerify: true})
		must.Succeed(t, err)
		defer conn.Close()
		return conn.ConnectionState().PeerCertificates[0].SerialNumber.String()
	}
	before := serial()
	k.issue("tls") // issue writes the certificate before its key: for a moment the two don't match
	eventually(t, "the new certificate is used", func() bool { return serial() != before })

	if code, body := do(t, http.DefaultClient, "GET", p.health+"/readyz"); code != 200 && code != 503 {
		t.Errorf("health: %d %s", code, body)
	}
	if code, _ := do(t, http.DefaultClient, "POST", p.health+"/sync"); code != 404 && code != 405 {
		t.Errorf("the health address answers a hook: %d", code)
	}
	if code, _ := do(t, next, "GET", p.url+"/metrics"); code != 404 {
		t.Errorf("the hooks' address answers /metrics: %d; want 404", code)
	}
	_, metrics := do(t, http.DefaultClient, "GET", p.health+"/metrics")
	for _, m := range []string{`vmgroup_refused_total{reason="wrong-token"}`, `vmgroup_refused_total{reason="reader"}`, "vmgroup_certificate_expiry_timestamp_seconds"} {
		if !strings.Contains(metrics, m) {
			t.Errorf("/metrics has no %s", m)
		}
	}
	p.stop(t)
}

func TestPlanAsksAServerWithAuthentication(t *testing.T) {
	t.Parallel()
	k := newKeys(t)
	k.issue("client")
	p := serve(t, nil, append([]string{"--simulator", "--client-ca-file", k.path("ca.crt")}, k.flags()...)...)
	lock := []string{"--server", p.url, "--server-ca-file", k.path("ca.crt"), "--tls-server-name", "vmgroup.vmgroup-system.svc",
		"--server-client-cert-file", k.path("client.crt"), "--server-client-key-file", k.path("client.key")}
	plan := func(args ...string) (string, int) {
		out, errs, status := preview(t, nil, strings.Replace(plantedManifest, ", userData: {secretKeyRef: {name: boot}}", "", 1), args...)
		return out + errs, status
	}
	eventually(t, "a plan", func() bool {
		out, status := plan(append(lock, "--server-token-file", k.path("token"))...)
		return status == 2 && strings.Contains(out, "PowerOn")
	})
	k.write("wrong", "a-token-that-is-not-good")
	k.write("none", "")
	for says, args := range map[string][]string{
		"the server answered 401 Unauthorized: give the hooks' token":   append(lock, "--server-token-file", k.path("wrong")),
		"the server answered 403 Forbidden":                             append(lock, "--server-token-file", k.path("reader")),
		"does not contain exactly one token":                            append(lock, "--server-token-file", k.path("none")),
		"failed to verify certificate":                                  {"--server", p.url},
		"certificate required":                                          lock[:6],
		"plain HTTP to another machine":                                 {"--server", "http://vmgroup.example.com", "--server-token-file", k.path("token")},
		"--server: give a URL":                                          {"--server", "vmgroup:8443"},
		"no server answers at http://127.0.0.1:1":                       {"--server", "http://127.0.0.1:1"},
		"--server-ca-file: " + k.path("none") + " contains no PEM cert": {"--server", p.url, "--server-ca-file", k.path("none")},
	} {
		if out, status := plan(args...); status != 1 || !strings.Contains(out, says) || strings.Contains(out, "planted") {
			t.Errorf("%q: exit status %d: %s", says, status, out)
		}
	}
}
