package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/metacontroller"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/test/thin"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// inXML writes a text within XML.
func inXML(text string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(text))
	return b.String()
}

// echoer stands between the server and vCenter, and answers some calls with faults that repeat the request, in each encoding that a fault
// could use.
type echoer struct {
	login, clone, rest atomic.Bool
	echoed             atomic.Int64
	next               http.Handler
}

func (e *echoer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	text := string(body)
	is := func(on *atomic.Bool, what string) bool { return on.Load() && strings.Contains(text, what) }
	switch {
	case is(&e.login, "<Login "), is(&e.clone, "<CloneVM_Task "):
		n := e.echoed.Add(1)
		inJSON, _ := json.Marshal(text)
		said := []string{text, inXML(text), string(inJSON), url.QueryEscape(text), base64.StdEncoding.EncodeToString(body), strings.ReplaceAll(text, "><", "> <")}[n%6]
		if n > 6 && len(text) > 900 { // a part of the request
			said = said[len(said)/3 : len(said)/3*2]
		}
		w.WriteHeader(http.StatusInternalServerError)
		fmt.Fprintf(w, `<?xml version="1.0"?><soapenv:Envelope xmlns:soapenv="http://schemas.xmlsoap.org/soap/envelope/" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"><soapenv:Body><soapenv:Fault>`+
			`<faultcode>ServerFaultCode</faultcode><faultstring>%[1]s</faultstring><detail><InvalidArgumentFault xmlns="urn:vim25" xsi:type="InvalidArgument">`+
			`<faultMessage><key>k</key><message>%[1]s</message></faultMessage><invalidProperty>%[1]s</invalidProperty></InvalidArgumentFault></detail></soapenv:Fault></soapenv:Body></soapenv:Envelope>`, inXML(said))
	case e.rest.Load() && r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/session"):
		e.echoed.Add(1)
		user, password, _ := r.BasicAuth()
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		said, _ := json.Marshal(fmt.Sprintf("no: %s, %s %s", r.Header.Get("Authorization"), user, password))
		fmt.Fprintf(w, `{"type":"com.vmware.vapi.std.errors.invalid_request","value":{"messages":[{"id":"x","default_message":%s,"args":[]}]}}`, said)
	default:
		r.Body = io.NopCloser(bytes.NewReader(body))
		e.next.ServeHTTP(w, r)
	}
}

// A fault that repeats the request shows none of its secrets: not in the status, on the pages, in /groups, in the log, nor in what check says.
func TestAFaultThatEchoesTheRequestShowsNoSecret(t *testing.T) {
	thin.NotShort(t)
	t.Parallel()
	const (
		password = `planted&Pass<w0rd>"+%/ü`
		line     = "planted-user-data-4be1"
	)
	userData := "#cloud-config\nwrite_files:\n"
	for i := range 40 {
		userData += fmt.Sprintf("  - {path: /etc/app/%d, content: %q}\n", i, fmt.Sprintf("%s-%x", line, i*i*7919))
	}
	vc := startVCenter(t, vcsim.Config{User: "planner", Password: password, Guest: vcsim.Guest{Tools: true}})
	to := vc.URL()
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: to.Scheme, Host: to.Host})
	proxy.Transport = &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	e := &echoer{next: proxy}
	e.login.Store(true)
	between := httptest.NewServer(e)
	t.Cleanup(between.Close)

	env := []string{"VC_HOST=" + between.URL, "VC_USER=planner", "VC_PASS=" + password, "VC_INSECURE=true"}
	p := serve(t, env, "--log-level", "debug")
	var output strings.Builder
	look := func() {
		t.Helper()
		for _, path := range []string{"/groups", "/groups/default/web", "/", "/ui/groups/default/web", "/sd"} {
			_, body := do(t, http.DefaultClient, "GET", p.url+path)
			fmt.Fprintf(&output, "%s: %s\n", path, body)
		}
	}
	check := func() {
		t.Helper()
		for _, format := range []string{"table", "json"} {
			c := vmgroup(env, "check", "--output", format)
			text, _ := c.CombinedOutput()
			fmt.Fprintf(&output, "check: %s\n", text)
		}
	}
	g := metacontroller.New(p.url, "default", "web", "uid-web", 1)
	g.Spec.UserData = &v1alpha1.UserData{SecretKeyRef: &v1alpha1.KeyRef{Name: "boot"}}
	g.Related = []metacontroller.Related{{Kind: "Secret", Name: "boot", Data: map[string]string{"user-data": userData}}}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	until := func(what string, holds func(metacontroller.Answer) bool) {
		t.Helper()
		a, err := g.Until(ctx, holds)
		fmt.Fprintf(&output, "%+v\n", a)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		for _, event := range g.Events {
			output.Write(event)
		}
	}
	until("the login's fault", func(a metacontroller.Answer) bool {
		return strings.Contains(a.Status.LastMessage, "the server can't use vCenter") && e.echoed.Load() > 2
	})
	look()
	check()
	e.login.Store(false)
	e.clone.Store(true)
	e.echoed.Store(0)
	until("the clone's fault", func(a metacontroller.Answer) bool {
		return strings.Contains(fmt.Sprint(a.Status), "[redacted]") && e.echoed.Load() > 5
	})
	look()
	e.rest.Store(true)
	g.Edit(func(spec *v1alpha1.VmGroupSpec) { spec.Tags = []v1alpha1.Tag{{Category: "team", Name: "shop"}} })
	until("the REST login's fault", func(a metacontroller.Answer) bool { return strings.Contains(fmt.Sprint(a.Status), "refuses the tags") })
	look()
	p.stop(t)
	output.WriteString(p.logged())

	out := output.String()
	encoded, _ := plan.EncodeUserData(plan.Sensitive(userData))
	secrets := []string{password, inXML(password), inXML(inXML(password)), line, base64.StdEncoding.EncodeToString([]byte("planner:" + password)), encoded[:60], encoded[len(encoded)/2:][:60], encoded[len(encoded)/3:][:40], url.QueryEscape(encoded[100:160])}
	inJSON, _ := json.Marshal(password)
	secrets = append(secrets, string(inJSON[1:len(inJSON)-1]))
	for _, secret := range secrets {
		for _, shape := range disguises(secret) {
			if at := strings.Index(out, shape); at >= 0 {
				t.Errorf("the output has a secret as %q: …%s…", shape, out[max(0, at-200):min(len(out), at+200)])
				break
			}
		}
	}
	for _, proof := range []string{"check: ", "/ui/groups/default/web", "CloneVM_Task", "[redacted]", "POST session"} {
		if !strings.Contains(out, proof) {
			t.Errorf("the test missed a case: no %s", proof)
		}
	}
}
