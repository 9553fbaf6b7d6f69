package hook_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/rs/zerolog"

	"codeconnect.vmworld.com/vmgroup/sync/hook"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/test/must"
)

// planted is the secret user data. It must occur only in the call that the controller gets.
const planted = "#cloud-config\npassword: planted-secret\n"

func base64Of(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }

// request returns a hook request of a group with that userData and those related objects ("" omits the key).
func request(userData, related string) []byte {
	if related != "" {
		related = `,"related":` + related
	}
	return fmt.Appendf(nil, `{"parent":{"apiVersion":"vm.codeconnect.vmworld.com/v1alpha1","kind":"VmGroup",
		"metadata":{"name":"web","namespace":"shop","uid":"u","generation":1},
		"spec":{"cpu":1,"memory":1,"template":"ubuntu-24.04","userData":%s}},"children":{}%s,"finalizing":false}`, userData, related)
}

const (
	fromSecret    = `{"secretKeyRef":{"name":"web-data"}}`
	fromConfigMap = `{"configMapKeyRef":{"name":"web-data","key":"k"}}`
)

func TestCustomizeRequestsTheObjectOfSpecUserData(t *testing.T) {
	t.Parallel()
	for userData, want := range map[string]string{
		`null`: `{"relatedResources":[]}`, `{}`: `{"relatedResources":[]}`,
		fromSecret:    `{"relatedResources":[{"apiVersion":"v1","resource":"secrets","namespace":"shop","names":["web-data"]}]}`,
		fromConfigMap: `{"relatedResources":[{"apiVersion":"v1","resource":"configmaps","namespace":"shop","names":["web-data"]}]}`,
	} {
		for _, edit := range []string{"", `"finalizing":true`} { // Metacontroller caches the answer, which must therefore depend only on the spec
			body := request(userData, "")
			if edit != "" {
				body = bytes.Replace(body, []byte(`"finalizing":false`), []byte(edit), 1)
			}
			w := post(serve(&controller{}), "/customize", body)
			if got := strings.TrimSpace(w.Body.String()); w.Code != 200 || got != want {
				t.Errorf("%s: %d %s; want 200 and %s", userData, w.Code, got, want)
			}
		}
		deleted := bytes.Replace(request(userData, ""), []byte(`"name":"web"`), []byte(`"name":"web","deletionTimestamp":"2026-11-21T03:00:00Z"`), 1)
		if w := post(serve(&controller{}), "/customize", deleted); w.Code != 200 || strings.TrimSpace(w.Body.String()) != `{"relatedResources":[]}` {
			t.Errorf("%s, of a group in deletion: %d %s", userData, w.Code, w.Body)
		}
	}
}

func TestUserDataIsTakenFromTheRelatedObjects(t *testing.T) {
	t.Parallel()
	secret := func(data string) string {
		return `{"Secret.v1":{"shop/web-data":{"apiVersion":"v1","kind":"Secret","type":"Opaque","data":` + data + `}}}`
	}
	configMap := func(fields string) string {
		return `{"ConfigMap.v1":{"shop/web-data":{"apiVersion":"v1","kind":"ConfigMap",` + fields + `}}}`
	}
	encoded := base64Of(planted)
	for _, c := range []struct {
		name, userData, related string
		reason                  string // of the fault; empty if the server accepts the text
		says                    string
	}{
		{"a Secret", fromSecret, secret(`{"user-data":"` + encoded + `","other":"eA=="}`), "", ""},
		{"a Secret of hook version v1", fromSecret, strings.Replace(secret(`{"user-data":"`+encoded+`"}`), "shop/", "", 1), "", ""},
		{"a ConfigMap", fromConfigMap, configMap(`"data":{"k":` + quoted(planted) + `}`), "", ""},
		{"a ConfigMap's binary data", fromConfigMap, configMap(`"data":{"x":"y"},"binaryData":{"k":"` + encoded + `"}`), "", ""},
		{"no related objects", fromSecret, "", plan.ReasonUserDataNotGiven, "Secret shop/web-data"},
		{"null", fromSecret, "null", plan.ReasonUserDataNotGiven, "Secret shop/web-data"},
		{"none of the kind", fromSecret, `{}`, plan.ReasonSecretNotFound, "customize hook"},
		{"another Secret", fromSecret, strings.Replace(secret(`{}`), "web-data", "other", 1), plan.ReasonSecretNotFound, "Secret shop/web-data"},
		{"the Secret of another namespace", fromSecret, strings.Replace(secret(`{}`), "shop/", "kube-system/", 1), plan.ReasonSecretNotFound, "Secret shop/web-data"},
		{"a ConfigMap of that name", fromSecret, configMap(`"data":{}`), plan.ReasonSecretNotFound, "Secret shop/web-data"},
		{"a Secret of that name", fromConfigMap, secret(`{}`), plan.ReasonConfigMapNotFound, "ConfigMap shop/web-data"},
		{"another key", fromSecret, secret(`{"b":"` + encoded + `","a":"` + encoded + `"}`), plan.ReasonUserDataKeyNotFound, `no key "user-data" (it has 2 other keys)`},
		{"no data", fromSecret, secret(`null`), plan.ReasonUserDataKeyNotFound, "no keys at all"},
		{"an empty value", fromSecret, secret(`{"user-data":""}`), plan.ReasonUserDataEmpty, "user-data"},
		{"null as a value", fromConfigMap, configMap(`"data":{"k":null}`), plan.ReasonUserDataEmpty, `"k"`},
		{"no text", fromConfigMap, configMap(`"binaryData":{"k":"` + base64Of(planted+"\xff") + `"}`), plan.ReasonUserDataNotText, "UTF-8"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			k := &controller{state: healthy()}
			w := post(serve(k), "/sync", request(c.userData, c.related))
			if w.Code != 200 || len(k.calls) != 1 {
				t.Fatalf("the sync is answered %d, after %d calls of the controller; want 200 after one: %s", w.Code, len(k.calls), w.Body)
			}
			got := k.calls[0].Related
			if c.reason == "" {
				if got.UserData.Reveal() != planted || got.Fault != nil || len(got.Digest) != 32 {
					t.Errorf("%q %+v", got.UserData.Reveal(), got)
				}
				return
			}
			if got.Fault == nil || got.Fault.Reason != c.reason || !strings.Contains(got.Fault.Message, c.says) || got.UserData != "" {
				t.Errorf("got the fault %+v, and %d bytes of user data; want %s with %q, and none", got.Fault, len(got.UserData), c.reason, c.says)
			}
			if !strings.Contains(w.Body.String(), c.reason) {
				t.Errorf("the status does not say so: %s", w.Body)
			}
			if strings.Contains(w.Body.String(), "planted") || strings.Contains(w.Body.String(), encoded) {
				t.Errorf("user data is shown: %s", w.Body)
			}
		})
	}
}

func quoted(text string) string {
	b, _ := json.Marshal(text)
	return string(b)
}

func TestUnrequestedRelatedObjectsAreNotKept(t *testing.T) {
	t.Parallel()
	k := &controller{state: healthy()}
	object := `{"metadata":{"annotations":{"a":"kept-1"}},"data":{"user-data":"` + base64Of("#cloud-config") + `","other":"` + base64Of("kept-2") + `"}}`
	related := `{"Secret.v1":{"shop/web-data":` + object + `,"shop/x":` + strings.ReplaceAll(object, "#cloud", "kept-3") + `}}`
	if w := post(serve(k), "/sync", request(fromSecret, related)); w.Code != 200 {
		t.Fatalf("the first sync is answered %d, want 200: %s", w.Code, w.Body)
	}
	if w := post(serve(k), "/sync", request("null", related)); w.Code != 200 {
		t.Fatalf("the sync without user data in the spec is answered %d, want 200: %s", w.Code, w.Body)
	}
	for i, c := range k.calls {
		walkStrings(reflect.ValueOf(c), func(s string) {
			if strings.Contains(s, "kept") || strings.Contains(s, base64Of("kept-2")) || i == 1 && strings.Contains(s, "cloud") {
				t.Errorf("call %d holds %q", i, s)
			}
		})
	}
}

// walkStrings calls show with all strings that a value leads to.
func walkStrings(v reflect.Value, show func(string)) {
	switch v.Kind() {
	case reflect.String:
		show(v.String())
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			walkStrings(v.Elem(), show)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			walkStrings(v.Field(i), show)
		}
	case reflect.Slice, reflect.Array:
		if v.Type().Elem().Kind() == reflect.Uint8 && v.Kind() == reflect.Slice {
			show(string(v.Bytes()))
			return
		}
		for i := range v.Len() {
			walkStrings(v.Index(i), show)
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			walkStrings(key, show)
			walkStrings(v.MapIndex(key), show)
		}
	}
}

// Whatever the request, and however broken, no answer and no log line has a part of its user data.
func TestNoAnswerAndNoLogLineHasUserData(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	meter := prometheus.NewRegistry()
	k := &controller{state: healthy()}
	k.state.VMs = nil
	listed := func() ([]plan.Listed, bool) { return nil, true }
	server := httptest.NewServer(both(hook.Config{Controller: k, ListGroups: listed, Ready: func() error { return nil }, Meter: meter,
		Metrics: promhttp.HandlerFor(meter, promhttp.HandlerOpts{}), Log: zerolog.New(zerolog.SyncWriter(&log)).Level(zerolog.DebugLevel)}))
	encoded := base64Of(planted)
	bodies := map[string]int{ // with the status code of /sync
		string(request(fromSecret, `{"Secret.v1":{"shop/web-data":{"data":{"user-data":"`+encoded+`"}}}}`)):               200,
		string(request(fromSecret, `{"Secret.v1":{"shop/web-data":{"data":{"user-data":"`+planted[:13]+`planted"}}}}`)):   422, // not base64
		string(request(fromSecret, `{"Secret.v1":{"shop/web-data":{"data":{"user-data":{"planted":1}}}}}`)):               422,
		string(request(fromSecret, `{"Secret.v1":{"shop/web-data":{"data":"planted"}}}`)):                                 422,
		string(request(fromSecret, `{"Secret.v1":{"shop/web-data":"planted"}}`)):                                          422,
		string(request(fromSecret, `{"Secret.v1":"planted"}`)):                                                            422,
		string(request(fromSecret, `"planted"`)):                                                                          422,
		string(request(fromSecret, `[9876543.21]`)):                                                                       422,
		string(request(fromConfigMap, `{"ConfigMap.v1":{"shop/web-data":{"data":{"k":9876543.21}}}}`)):                    422,
		string(request(fromConfigMap, `{"ConfigMap.v1":{"shop/web-data":{"data":{"other":`+quoted(planted)+`}}}}`)):       200,
		string(request(fromSecret, `{"Secret.v1":{"shop/web-data":{"data":{"user-data":"planted`+"\x01"+`"}}}}`)):         400,
		string(request(fromSecret, `{"Secret.v1":{"shop/web-data":{"data":{"user-data":planted}}}}`)):                     400,
		string(request(fromSecret, `{"Secret.v1":{"shop/web-data":{"data":{"user-data":"`+encoded)):                       400,
		string(request("null", `{"Secret.v1":{"shop/web-data":{"data":"planted"}}}`)):                                     200, // the hook does not read this Secret
		strings.Replace(string(request(fromSecret, `{"Secret.v1":"planted"}`)), `"finalizing":false`, `"finalizing":`, 1): 400,
	}
	var answers []string
	send := func(method, path, body string, code int) {
		t.Helper()
		r, err := http.NewRequest(method, server.URL+path, strings.NewReader(body))
		must.Succeed(t, err)
		r.Header.Set("Content-Type", "application/json")
		response, err := server.Client().Do(r)
		must.Succeed(t, err)
		defer response.Body.Close() //nolint:errcheck // the body was only read
		var text bytes.Buffer
		_, _ = text.ReadFrom(response.Body)
		if code != 0 && response.StatusCode != code {
			t.Errorf("%s: %d %s\nfor %s", path, response.StatusCode, &text, body)
		}
		answers = append(answers, path+" "+text.String())
	}
	for body, code := range bodies {
		send("POST", "/sync", body, code)
		send("POST", "/plan", body, code)
		send("POST", "/customize", body, 0)
		deletion := strings.NewReplacer(`"generation":1`, `"generation":1,"deletionTimestamp":"2026-11-21T02:59:00Z"`, `"finalizing":false`, `"finalizing":true`)
		send("POST", "/finalize", deletion.Replace(body), code)
	}
	for _, path := range []string{"/groups", "/groups/shop/web", "/sd", "/metrics"} {
		send("GET", path, "", 0)
	}
	server.Close()
	if !strings.Contains(log.String(), `"hook":"/sync"`) {
		t.Error("the log is not at level debug")
	}
	for _, text := range append(answers, log.String()) {
		for _, needle := range []string{"planted", encoded, encoded[:16], "9876543"} {
			if strings.Contains(text, needle) {
				t.Errorf("%s is shown: %s", needle, text)
			}
		}
	}
}
