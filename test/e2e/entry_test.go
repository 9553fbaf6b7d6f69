package e2e

import (
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"

	"codeconnect.vmworld.com/vmgroup/test/must"
)

// setToken changes the token of Metacontroller's calls. Metacontroller reads it when the CompositeController's spec changes.
func (r *rig) setToken(t *testing.T, token string, period int) {
	t.Helper()
	r.kubectl(t, "-n", "vmgroup-system", "patch", "secret", "vmgroup-hook-token", "--type=merge", "-p",
		fmt.Sprintf(`{"data":{"token":%q}}`, base64.StdEncoding.EncodeToString([]byte(token))))
	r.kubectl(t, "patch", "compositecontroller", "vmgroup", "--type=merge", "-p", fmt.Sprintf(`{"spec":{"resyncPeriodSeconds":%d}}`, period))
}

// refused counts the hook calls that the server refused.
func (r *rig) refused(t *testing.T) (n int) {
	t.Helper()
	text, err := fetch("http://" + r.health + "/metrics")
	must.Succeed(t, err)
	for line := range strings.Lines(text) {
		if count, is := strings.CutPrefix(line, "vmgroup_refused_total{"); is {
			i, err := strconv.Atoi(strings.TrimSpace(count[strings.LastIndex(count, " "):]))
			if err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			n += i
		}
	}
	return n
}

// letsIn waits until the server accepts a token.
func (r *rig) letsIn(t *testing.T, token string) {
	t.Helper()
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(read(t, r.path("ca.crt")))
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}
	defer client.CloseIdleConnections()
	eventually(t, func() string {
		request, err := http.NewRequest(http.MethodGet, "https://"+r.hooks+"/groups", nil)
		must.Succeed(t, err)
		request.Header.Set("Authorization", "Bearer "+token)
		response, err := client.Do(request)
		if err != nil {
			return err.Error()
		}
		_ = response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return response.Status
		}
		return ""
	})
}

func TestATokenIsChangedWithoutARefusedCall(t *testing.T) {
	r := life(t)
	namespace := r.namespace(t, "token")
	r.up(t, namespace, "web", 1)
	next := rand.Text()
	write(t, r.path("token-next"), next)
	r.letsIn(t, next) // the server accepts the next token in addition to the old one
	before := r.refused(t)
	r.setToken(t, next, 61)
	r.kubectl(t, "-n", namespace, "scale", "vg/web", "--replicas=2")
	r.settled(t, namespace, "web", 2)
	write(t, r.path("token"), next) // the old one is no longer valid
	must.Succeed(t, os.Remove(r.path("token-next")))
	r.kubectl(t, "-n", namespace, "scale", "vg/web", "--replicas=3")
	r.settled(t, namespace, "web", 3)
	if n := r.refused(t) - before; n > 0 {
		t.Errorf("%d calls were refused; want none", n)
	}

	// The user sees that a token is wrong, but not the token.
	wrong := rand.Text()
	r.setToken(t, wrong, 62)
	r.kubectl(t, "-n", namespace, "scale", "vg/web", "--replicas=1")
	var described string
	eventually(t, func() string {
		if described = r.kubectl(t, "-n", namespace, "describe", "vg", "web"); strings.Contains(described, "SyncError") && strings.Contains(described, "401") {
			return ""
		}
		return "describe shows no refused call:\n" + described
	})
	r.onePerOrdinal(t, namespace, "web", 3)
	r.setToken(t, next, 60)
	r.settled(t, namespace, "web", 1)
	for what, text := range map[string]string{"the output of describe": described, "the server's log": r.server.Log(), "Metacontroller's log": r.metacontroller.Log()} {
		if strings.Contains(text, wrong) || strings.Contains(text, next) {
			t.Errorf("a token is in %s", what)
		}
	}
	r.kubectl(t, "-n", namespace, "delete", "vg", "web", "--timeout=2m")
}

func TestMetacontrollerPresentsACertificateWithTheComponentMTLS(t *testing.T) {
	r := life(t)
	namespace := r.namespace(t, "mtls")
	if err := r.server.Stop(); err != nil {
		t.Error(err)
	}
	r.startServer(t, "--client-ca-file", r.path("ca.crt"))
	r.applyController(t, overlay(t, "components/mtls"))
	r.up(t, namespace, "web", 1)
	r.kubectl(t, "-n", namespace, "delete", "vg", "web", "--timeout=2m")
	if err := r.server.Stop(); err != nil {
		t.Error(err)
	}
	r.startServer(t)
	r.applyController(t, repository+"/manifests")
	r.up(t, namespace, "web", 1)
	r.kubectl(t, "-n", namespace, "delete", "vg", "web", "--timeout=2m")
}
