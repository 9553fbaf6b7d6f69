package main

import (
	"bufio"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"codeconnect.vmworld.com/vmgroup/sync/metacontroller"
	"codeconnect.vmworld.com/vmgroup/sync/page"
	"codeconnect.vmworld.com/vmgroup/test/must"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

func TestStatusShowsWhatTheServersPageShows(t *testing.T) {
	t.Parallel()
	vc := startVCenter(t, vcsim.Config{})
	p := serveReady(t, against(vc))
	good, bad := metacontroller.New(p.url, "shop", "web", "uid-web", 2), metacontroller.New(p.url, "shop", "bad", "uid-bad", 1)
	bad.Spec.Template = "nope"
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	if _, err := good.Until(ctx, metacontroller.Running); err != nil {
		t.Fatal(err)
	}
	if _, err := bad.Sync(ctx); err != nil {
		t.Fatal(err)
	}
	ask := func(status int, args ...string) string {
		t.Helper()
		out, errs, is := run(t, vmgroup(nil, append([]string{"status", "--server", p.url}, args...)...))
		if is != status {
			t.Fatalf("%v: exit status %d: %s%s; want %d", args, is, out, errs, status)
		}
		return out + errs
	}
	eventually(t, "both groups, the worst first", func() bool {
		text := ask(0)
		worst, fine := strings.Index(text, "shop/bad"), strings.Index(text, "shop/web")
		return worst >= 0 && fine > worst && strings.Contains(text, "What to do:") && strings.Contains(text, "2 of 2")
	})
	if text := ask(0, "shop/bad"); !strings.Contains(text, "Blocked") || !strings.Contains(text, "TemplateNotFound") || !strings.Contains(text, "Next steps") {
		t.Errorf("shop/bad:\n%s", text)
	}
	if text := ask(0, "shop/web"); !strings.Contains(text, "web-1") || !strings.Contains(text, "None: the group is as its spec says.") || !strings.Contains(text, "Recent actions") {
		t.Errorf("shop/web:\n%s", text)
	}
	var s page.Status
	if err := json.Unmarshal([]byte(ask(0, "-o", "json")), &s); err != nil || len(s.Groups) != 2 {
		t.Errorf("%v: %+v", err, s)
	}
	other := serveReady(t, against(vc))
	eventually(t, "a replica that isn't called says so", func() bool {
		out, _, _ := run(t, vmgroup(nil, "status", "shop/web", "--server", other.url))
		host, _ := os.Hostname()
		out = strings.Join(strings.Fields(out), " ") // status wraps long lines
		return strings.Contains(out, "Metacontroller doesn't call this replica of the server ("+host+")") && strings.Contains(out, "kubectl vmgroup status finds it") && strings.Contains(out, "web-1")
	})
	if text := ask(1, "shop/nope"); !strings.Contains(text, `The group "shop/nope" is not known yet`) {
		t.Errorf("shop/nope: %s; want %q in the text", text, `The group "shop/nope" is not known yet`)
	}
	if one, other := ask(0, "-n", "shop", "web"), ask(1, "-n", "default", "web"); !strings.Contains(one, "web-1") || !strings.Contains(other, `The group "default/web" is not known yet`) {
		t.Errorf("web in the namespace shop: %s; in the default one: %s", one, other)
	}
	if only := ask(0, "web"); !strings.Contains(only, "web-1") {
		t.Errorf("the only group web: %s", only)
	}
	if some := ask(0, "-n", "shop"); !strings.Contains(some, "shop/web") || strings.Contains(ask(0, "-n", "other"), "shop/web") {
		t.Errorf("the groups of a namespace: %s", some)
	}
	if text := ask(2, "a/b/c"); !strings.Contains(text, "name a group as NAME or NAMESPACE/NAME") {
		t.Errorf("a/b/c: %s", text)
	}
}

func TestStatusFollowsTheServerUntilInterrupted(t *testing.T) {
	t.Parallel()
	p := serveReady(t, against(startVCenter(t, vcsim.Config{})))
	screen := onScreen(t, vmgroup(nil, "status", "--server", p.url, "-w"))
	piped := vmgroup(nil, "status", "--server", p.url, "-w")
	lines, err := piped.StdoutPipe()
	must.Succeed(t, err)
	must.Succeed(t, piped.Start())
	t.Cleanup(func() { _ = piped.Process.Kill() })
	eventually(t, "no group on the screen", func() bool { return screen.has("There is no group yet.") })
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	if _, err := metacontroller.New(p.url, "shop", "web", "uid-web", 2).Until(ctx, metacontroller.Running); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the group in place of that", func() bool {
		return screen.has("shop/web") && screen.has("2 of 2") && !screen.has("There is no group yet.")
	})
	fits(t, screen.lines())
	seen := 0
	for scanner := bufio.NewScanner(lines); seen < 2 && scanner.Scan(); { // into a pipe, status writes each answer below the previous one
		if strings.Contains(scanner.Text(), "2 of 2") {
			seen++
		}
	}
	if seen < 2 {
		t.Error("the pipe ended")
	}
	for _, c := range []*exec.Cmd{screen.Cmd, piped} {
		must.Succeed(t, c.Process.Signal(os.Interrupt))
		if err := c.Wait(); err != nil {
			t.Errorf("after Ctrl-C: %v", err)
		}
	}
}

// A server with mTLS takes its own certificate from a reader in its container.
func TestStatusInTheContainerOfAServerWithMTLSNeedsNoFlags(t *testing.T) {
	t.Parallel()
	k, callers := newKeys(t), newKeys(t)
	p := serve(t, against(startVCenter(t, vcsim.Config{})), append(k.flags(), "--client-ca-file", callers.path("ca.crt"))...)
	env := []string{
		"VMGROUP_LISTEN=" + p.url[strings.Index(p.url, "127."):], "VMGROUP_TLS_CERT_FILE=" + k.path("tls.crt"), "VMGROUP_TLS_PRIVATE_KEY_FILE=" + k.path("tls.key"),
		"VMGROUP_CLIENT_CA_FILE=" + callers.path("ca.crt"), "VMGROUP_TOKEN_FILE=" + k.path("token"), "VMGROUP_READER_TOKEN_FILE=" + k.path("reader"),
	}
	out, errs, status := run(t, vmgroup(env, "status"))
	if status != 0 || !strings.Contains(out, "There is no group yet.") {
		t.Errorf("vmgroup ended with the exit status %d: %s%s; want 0 and %q in the text", status, out, errs, "There is no group yet.")
	}
	out, errs, status = run(t, vmgroup(append(env, "VMGROUP_CLIENT_CA_FILE="), "status"))
	if status != 1 || !strings.Contains(errs, "certificate") {
		t.Errorf("without the certificate: exit status %d: %s%s; want 1 and %q in the text", status, out, errs, "certificate")
	}
}

// In the server's container, status needs no flags: it takes the reader's token among the files that the server was started with, and the
// hooks' where there is none. It trusts exactly the server's certificate.
func TestStatusInTheServersContainerNeedsNoFlags(t *testing.T) {
	t.Parallel()
	k := newKeys(t)
	p := serve(t, against(startVCenter(t, vcsim.Config{})), k.flags()...)
	listen := "VMGROUP_LISTEN=" + p.url[strings.Index(p.url, "127."):]
	files := []string{listen, "VMGROUP_TLS_CERT_FILE=" + k.path("tls.crt"), "VMGROUP_TOKEN_FILE=" + k.path("token") + "," + k.path("token-next")}
	for name, c := range map[string]struct {
		env    []string
		status int
		want   string
	}{
		"with a reader's token": {append(files, "VMGROUP_READER_TOKEN_FILE="+k.path("nope")+","+k.path("reader")), 0, "There is no group yet."},
		"without":               {files, 0, "There is no group yet."},
		"from outside":          {files[:2], 1, "the server wants a token"},
		"another certificate":   {files[:1], 1, "serves HTTPS"},
	} {
		out, errs, status := run(t, vmgroup(c.env, "status"))
		if status != c.status || !strings.Contains(out+errs, c.want) || strings.Contains(out+errs, readerToken) || strings.Contains(out+errs, hookToken) {
			t.Errorf("%s: exit status %d: %s%s", name, status, out, errs)
		}
	}
}

// inContainer are the variables of a server in its container.
func (k *keys) inContainer(p *process) []string {
	return []string{"VMGROUP_LISTEN=" + p.url[strings.Index(p.url, "127."):], "VMGROUP_TLS_CERT_FILE=" + k.path("tls.crt"), "VMGROUP_TLS_PRIVATE_KEY_FILE=" + k.path("tls.key"),
		"VMGROUP_TOKEN_FILE=" + k.path("token"), "VMGROUP_READER_TOKEN_FILE=" + k.path("reader")}
}

// When the certificate has expired, no caller accepts it any more; status in the container must still show what is wrong.
func TestStatusSaysThatTheCertificateHasExpired(t *testing.T) {
	t.Parallel()
	k := newKeys(t)
	k.issueUntil("tls", time.Now().Add(-time.Hour))
	p := serve(t, against(startVCenter(t, vcsim.Config{})), k.flags()...)
	out, errs, status := run(t, vmgroup(k.inContainer(p), "status"))
	if status != 0 || !strings.HasPrefix(out, "The server's certificate expired at ") || !strings.Contains(out, "What to do: Renew it (SECURITY.md#change-keys).") || !strings.Contains(out, "There is no group yet.") {
		t.Errorf("in the container: exit status %d: %s%s", status, out, errs)
	}
	_, errs, status = run(t, vmgroup(nil, "status", "--server", p.url, "--server-ca-file", k.path("ca.crt"), "--tls-server-name", "vmgroup.vmgroup-system.svc", "--server-token-file", k.path("reader")))
	if status != 1 || !strings.Contains(errs, "expired") || !strings.Contains(errs, "renew the server's certificate") {
		t.Errorf("from outside: exit status %d: %s", status, errs)
	}
	other := newKeys(t)
	out, errs, status = run(t, vmgroup(append(k.inContainer(p), "VMGROUP_TLS_CERT_FILE="+other.path("tls.crt")), "status"))
	if status != 1 || !strings.Contains(errs, "another certificate") {
		t.Errorf("with another certificate in the file: exit status %d: %s%s", status, out, errs)
	}
}
