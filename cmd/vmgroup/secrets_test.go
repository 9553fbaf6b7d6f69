package main

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"strconv"
	"strings"
	"testing"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/metacontroller"
	"codeconnect.vmworld.com/vmgroup/test/must"
	"codeconnect.vmworld.com/vmgroup/vsphere"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// disguises are the encodings in which a secret can leak.
func disguises(secret string) []string {
	raw := []byte(secret)
	return []string{
		secret, url.QueryEscape(secret), url.PathEscape(secret), strings.Trim(strconv.Quote(secret), `"`), hex.EncodeToString(raw), fmt.Sprintf("%d", raw),
		strings.TrimRight(base64.StdEncoding.EncodeToString(raw), "="), strings.TrimRight(base64.URLEncoding.EncodeToString(raw), "="),
		strings.TrimRight(base64.StdEncoding.EncodeToString([]byte("Bearer " + secret))[12:], "="),
	}
}

// The test drives the whole server, at log level debug, through success and failure, and searches all its output: answers (which
// become Events), log, metrics, and what plan prints.
func TestNoPlantedSecretLeaks(t *testing.T) {
	t.Parallel()
	const (
		password      = "planted Pass/w0rd+&<%>"
		wrongPassword = "planted wrong Pass/w0rd+&<%>"
		userData      = "#cloud-config\npassword: planted-user-data-7f3a\n"
		wrongToken    = "planted-wrong-token-c0ffee1234"
	)
	k := newKeys(t)
	key, err := os.ReadFile(k.path("tls.key"))
	must.Succeed(t, err)
	vc := startVCenter(t, vcsim.Config{User: "planner", Password: password, Guest: vcsim.Guest{Tools: true}})
	k.write("password", wrongPassword+"\n")
	env := []string{"VC_HOST=" + vc.URL().Host, "VC_USER=planner", "VC_PASS_FILE=" + k.path("password"), "VC_THUMBPRINT=" + vc.ThumbprintSHA256()}
	p := serve(t, env, append([]string{"--log-level", "debug"}, k.flags()...)...)
	caller := k.client(hookToken)
	var output strings.Builder
	send := func(c *http.Client, method, path, body string) {
		t.Helper()
		r, err := http.NewRequest(method, p.url+path, strings.NewReader(body))
		must.Succeed(t, err)
		r.Header.Set("Content-Type", "application/json")
		response, err := c.Do(r)
		must.Succeed(t, err)
		defer response.Body.Close() //nolint:errcheck // the body was only read
		fmt.Fprintf(&output, "%s %s: %d %v\n", method, path, response.StatusCode, response.Header)
		_ = response.Header.Write(&output)
		buffer := make([]byte, 1<<20)
		n, _ := response.Body.Read(buffer)
		output.Write(buffer[:n])
	}

	g := metacontroller.New(p.url, "default", "web", "uid-web", 1)
	g.Client = caller
	g.Spec.UserData = &v1alpha1.UserData{SecretKeyRef: &v1alpha1.KeyRef{Name: "boot"}}
	g.Related = []metacontroller.Related{{Kind: "Secret", Name: "boot", Data: map[string]string{"user-data": userData}}}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	refused := func(a metacontroller.Answer) bool {
		return strings.Contains(fmt.Sprint(a.Status.Conditions), "InvalidLogin")
	}
	a, err := g.Until(ctx, refused)
	if err != nil {
		t.Fatalf("the wrong password is not reported: %v\n%+v", err, a.Status)
	}
	fmt.Fprintf(&output, "%+v\n", a)
	k.write("password", password+"\n") // the server tries a changed password at once
	if a, err = g.Until(ctx, metacontroller.Running); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(&output, "%+v\n", a)

	good, err := g.Body(false)
	must.Succeed(t, err)
	encoded := base64.StdEncoding.EncodeToString([]byte(userData))
	if !strings.Contains(string(good), encoded) {
		t.Fatal("the request does not contain the user data")
	}
	bodies := []string{
		string(good), string(good)[:len(good)/2], strings.Replace(string(good), encoded, userData, 1), strings.Replace(string(good), `"`+encoded+`"`, "[1,2]", 1),
		`"` + userData + `"`, "{" + encoded, `{"parent":"` + encoded + `"}`, `{"parent":{"spec":{"cpu":"` + encoded + `"}}}`, "",
	}
	for _, body := range bodies {
		for _, path := range []string{"/sync", "/finalize", "/customize", "/plan"} {
			send(caller, "POST", path, body)
		}
	}
	for _, path := range []string{"/groups", "/groups/default/web", "/sd", "/sd?port=x", "/nothing"} {
		send(k.client(readerToken), "GET", path, "")
		send(k.client(wrongToken), "GET", path, "")
	}
	signIn := func(token string) {
		t.Helper()
		c := k.client("")
		c.Jar, _ = cookiejar.New(nil)
		response, err := c.PostForm(p.url+"/ui/sign-in", url.Values{"token": {token}, "to": {"/ui/groups/default/web"}})
		must.Succeed(t, err)
		defer response.Body.Close() //nolint:errcheck // the body was only read
		page, _ := io.ReadAll(response.Body)
		fmt.Fprintf(&output, "sign-in: %d %v %v %s\n", response.StatusCode, response.Header, c.Jar, page)
		for _, path := range []string{"/", "/ui/groups/default/web", "/ui/docs/reference", "/groups", "/?q=x"} {
			send(c, "GET", path, "")
		}
	}
	signIn(readerToken)
	signIn(hookToken)
	signIn(wrongToken)
	send(k.client(readerToken), "POST", "/sync", string(good))
	send(k.client(""), "POST", "/sync", string(good))
	k.write("token-next", "planted\ntoken\nthat is broken")
	k.write("tls.key", string(key)[:len(key)/2])
	eventually(t, "both are reported as broken", func() bool {
		send(caller, "GET", "/groups", "")
		_, _ = do(t, k.client(hookToken), "GET", p.url+"/groups") // makes the server read the certificates for a new handshake
		return strings.Contains(p.logged(), "ignoring a token") && strings.Contains(p.logged(), "still using the former one")
	})
	for _, path := range []string{"/healthz", "/readyz", "/metrics", "/nothing"} {
		_, body := do(t, http.DefaultClient, "GET", p.health+path)
		output.WriteString(body)
	}
	for _, args := range [][]string{{"--server-token-file", k.path("token")}, {"--server-token-file", k.path("reader")}, {"--server-token-file", k.path("token-next")}} {
		out, errs, _ := preview(t, env, plantedManifest, append([]string{"--server", p.url, "--server-ca-file", k.path("ca.crt"), "--tls-server-name", "vmgroup.vmgroup-system.svc"}, args...)...)
		output.WriteString(out + errs)
	}
	must.Succeed(t, g.Delete(ctx))
	p.stop(t)
	output.WriteString(p.logged())

	out := output.String()
	for _, proof := range []string{`"hook":"/sync"`, `"hook":"/ui/*"`, "Recent actions", "This token is not valid", "InvalidLogin", "vmgroup_refused_total", "vCenter session opened", "PowerOn", ": 400 ", ": 401 ", ": 403 ", ": 422 "} {
		if !strings.Contains(out, proof) {
			t.Errorf("the test missed a case: no %s in the output", proof)
		}
	}
	secrets := map[string]string{
		"the password": password, "the wrong password": wrongPassword, "the user data": userData, "a line of it": "planted-user-data-7f3a",
		"the hooks' token": hookToken, "the reader's": readerToken, "the wrong token": wrongToken, "the broken token": "that is broken",
		"the key": strings.Split(string(key), "\n")[1],
	}
	for what, secret := range secrets {
		for _, shape := range disguises(secret) {
			if at := strings.Index(out, shape); at >= 0 {
				t.Errorf("%s leaks as %q: …%s…", what, shape, out[max(0, at-200):min(len(out), at+200)])
			}
		}
	}
}

func TestPrintedSettingsContainNoPassword(t *testing.T) {
	t.Parallel()
	s := serveSettings{settings: settings{vcenter: vsphere.Config{Config: session.Config{Host: "vc", Password: "planted"}}}}
	p := planSettings{settings: s.settings}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x"} {
		for _, v := range []any{s, &s, p, &p, s.settings, s.vcenter, &s.vcenter} {
			if text := fmt.Sprintf(verb, v); strings.Contains(text, "planted") || strings.Contains(text, hex.EncodeToString([]byte("planted"))) {
				t.Errorf("%s of %T: %s", verb, v, text)
			}
		}
	}
}
