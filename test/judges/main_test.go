// Package judges checks the server's output with the programs of other projects ("judges") that read it:
//   - cloud-init of several Debian releases, with each of its network renderers and netplan, reads the metadata of guests;
//   - ansible-inventory reads the inventory;
//   - Prometheus' own code reads GET /sd;
//   - promtool reads the alerts, also with the metrics of real servers.
//
// `make judges` runs the tests. Tests whose judge this machine can't run are skipped; with CI=true, they fail.
package judges

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/metacontroller"
	"codeconnect.vmworld.com/vmgroup/test/must"
	"codeconnect.vmworld.com/vmgroup/test/process"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

const (
	repository = "../.."
	timeout    = 2 * time.Minute
	namespace  = "shop"
	// userData is the user data of all groups.
	userData = "## template: jinja\n#cloud-config\nruncmd: [[echo, '{{ ds.meta_data.ordinal }} {{ ds.meta_data.hostname }} {{ ds.meta_data.namespace }}/{{ ds.meta_data.group }} {{ ds.meta_data.instance_id }} {{ ds.meta_data.local_hostname }}']]\n"
)

// build builds the server, once.
var build = sync.OnceValue(func() error { return process.Build(repository, binary) })

var binary = filepath.Join(os.TempDir(), fmt.Sprintf("vmgroup-judges-%d", os.Getpid()))

func TestMain(m *testing.M) {
	code := m.Run()
	_ = os.Remove(binary)
	os.Exit(code)
}

// lacks skips a test that needs a program or permission that this machine does not have; with CI=true, it fails the test.
func lacks(t *testing.T, format string, args ...any) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf("CI=true needs all judges: "+format, args...)
	}
	t.Skipf(format, args...)
}

// site is a vCenter, and a server on it: open, or with TLS and tokens.
type site struct {
	*vcsim.VCenter
	url    string
	client *http.Client // for Metacontroller's calls
	// authority, token and wrong are files: the certificate of the server's authority, the reader's token, and a wrong token.
	authority, token, wrong string
}

// newSite starts a vCenter and a server, which end with the test.
func newSite(t *testing.T, locked bool) *site {
	t.Helper()
	dir := t.TempDir()
	v, err := vcsim.Start(vcsim.Config{Portgroups: 2, Guest: vcsim.Guest{Tools: true}})
	must.Succeed(t, err)
	t.Cleanup(func() { must.Succeed(t, v.Close()) })
	s := &site{VCenter: v, client: &http.Client{}}
	write := func(name, text string) string {
		file := filepath.Join(dir, name)
		must.Succeed(t, os.WriteFile(file, []byte(text), 0o600))
		return file
	}
	must.Succeed(t, build())
	at := v.URL()
	password, _ := at.User.Password()
	listen := freePort(t)
	args := []string{"serve", "--listen", listen, "--health-listen", "", "--resync", "5s", "--lease", "30s", "--log-level", "debug", "--host", at.Host,
		"--user", at.User.Username(), "--password-file", write("password", password), "--thumbprint", v.ThumbprintSHA256()}
	s.url = "http://" + listen
	if locked {
		hooks := rand.Text()
		s.token, s.wrong = write("reader-token", rand.Text()), write("wrong-token", rand.Text())
		cert, key, trusting := borrowed(t)
		s.authority, s.url = write("tls.crt", cert), "https://"+listen
		s.client.Transport = bearer{hooks, trusting}
		args = append(args, "--tls-cert-file", s.authority, "--tls-private-key-file", write("tls.key", key), "--token-file", write("token", hooks),
			"--reader-token-file", s.token)
	}
	var log bytes.Buffer
	server := exec.Command(binary, args...)
	server.Stdout, server.Stderr = &log, &log
	must.Succeed(t, server.Start())
	t.Cleanup(func() {
		_ = server.Process.Signal(syscall.SIGTERM)
		_ = server.Wait()
		if t.Failed() {
			t.Logf("the last lines of the server's log:\n%s", log.String()[max(0, log.Len()-4000):])
		}
	})
	return s
}

// bearer adds a token to each call.
type bearer struct {
	token string
	next  http.RoundTripper
}

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.token)
	return b.next.RoundTrip(r)
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.Succeed(t, err)
	defer l.Close() //nolint:errcheck // nothing was written
	return l.Addr().String()
}

// borrowed returns httptest's certificate for 127.0.0.1 and its key, as PEM, and its authority.
func borrowed(t *testing.T) (cert, key string, trusting http.RoundTripper) {
	t.Helper()
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	secret, err := x509.MarshalPKCS8PrivateKey(server.TLS.Certificates[0].PrivateKey)
	must.Succeed(t, err)
	block := func(kind string, der []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	return block("CERTIFICATE", server.Certificate().Raw), block("PRIVATE KEY", secret), server.Client().Transport
}

// up creates a group, and waits until the group is RUNNING and every member has an address.
func (s *site) up(t *testing.T, name string, replicas int32, change func(*v1alpha1.VmGroupSpec)) *metacontroller.Group {
	t.Helper()
	g := metacontroller.New(s.url, namespace, name, "uid-"+name, replicas)
	g.Client, g.Every = s.client, 100*time.Millisecond
	g.Spec.Readiness.Check = v1alpha1.ReadyGuestIP
	g.Spec.UserData = &v1alpha1.UserData{ConfigMapKeyRef: &v1alpha1.KeyRef{Name: "boot", Key: "text"}}
	g.Related = []metacontroller.Related{{Kind: "ConfigMap", Name: "boot", Data: map[string]string{"text": userData}}}
	if change != nil {
		change(&g.Spec)
	}
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	for {
		_, err := g.Until(ctx, metacontroller.Running)
		if err == nil {
			return g
		}
		if ctx.Err() != nil {
			t.Fatalf("%s is not up: %v: %s", name, err, g.Status.LastMessage)
		}
		time.Sleep(100 * time.Millisecond) // the server is starting
	}
}

// inventory returns the Ansible inventory of a group.
func inventory(t *testing.T, g *metacontroller.Group) string {
	t.Helper()
	var c struct{ Data map[string]string }
	must.Succeed(t, json.Unmarshal(g.Children["ConfigMap.v1"][g.Name+"-members"], &c))
	return c.Data["inventory.yaml"]
}

func member(g *metacontroller.Group, ordinal int) string {
	return fmt.Sprintf("/DC0/vm/vm-operator/%s/%s/%s-%d", namespace, g.Name, g.Name, ordinal)
}

// guestinfo returns the guestinfo of a member as the environment variables that cloud-init's DataSourceVMware reads.
func (s *site) guestinfo(t *testing.T, path string) (env []string) {
	t.Helper()
	d, err := s.Details(path)
	must.Succeed(t, err)
	for key, value := range d.ExtraConfig {
		if strings.HasPrefix(key, "guestinfo.") {
			env = append(env, "VMX_"+strings.ToUpper(strings.ReplaceAll(key, ".", "_"))+"="+value)
		}
	}
	return append(env, "VMX_GUESTINFO=1")
}

// plainText returns a decoded entry of guestinfo.
func plainText(t *testing.T, env []string, key string) string {
	t.Helper()
	for _, e := range env {
		if packed, is := strings.CutPrefix(e, "VMX_GUESTINFO_"+key+"="); is {
			z, err := gzip.NewReader(base64.NewDecoder(base64.StdEncoding, strings.NewReader(packed)))
			must.Succeed(t, err)
			text, err := io.ReadAll(z)
			must.Succeed(t, err)
			return string(text)
		}
	}
	t.Fatalf("there is no %s", key)
	return ""
}
