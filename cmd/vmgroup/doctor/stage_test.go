package doctor

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/page"
	"codeconnect.vmworld.com/vmgroup/test/must"
)

var now = time.Date(2026, 11, 30, 3, 0, 0, 0, time.UTC)

// stage is a control plane: the objects of the manifests, with what a cluster adds to them, and a kubectl that reads them.
type stage struct {
	t       *testing.T
	objects map[string]map[string]any // by kind/name; kind as kubectl is asked for it
	secrets map[string]map[string]string
	ca      *x509.Certificate
	caKey   *ecdsa.PrivateKey
	// forbidden are prefixes of kubectl's arguments that the user isn't allowed to run.
	forbidden []string
	denied    string // a right that Metacontroller lacks, as "verb resource"
	down      bool   // the API server
	logs      string
	answer    Answer
	asked     []string
}

func newStage(t *testing.T) *stage {
	t.Helper()
	s := &stage{t: t, objects: map[string]map[string]any{}, secrets: map[string]map[string]string{}}
	const root = "../../../"
	s.load(root+"charts/vmgroup/files/cluster/vm.codeconnect.vmworld.com_vmgroups.yaml", "crd")
	s.load(root+"manifests/base/compositecontroller.yaml", controllersCRD)
	s.load(root+"manifests/base/deployment.yaml", "deployment")
	s.load(root+"manifests/base/service.yaml", "service")
	s.load(root+"manifests/base/networkpolicy.yaml", "networkpolicies")
	s.established(groupsCRD)
	s.add("crd", controllersCRD, `{}`)
	s.established(controllersCRD)
	s.add("namespace", "metacontroller", `{"metadata": {"labels": {"kubernetes.io/metadata.name": "metacontroller"}}}`)
	s.add("metacontroller", "metacontroller-0", `{"metadata": {"namespace": "metacontroller", "labels": {"app.kubernetes.io/name": "metacontroller"}},
		"spec": {"serviceAccountName": "metacontroller", "containers": [{"name": "metacontroller", "image": "ghcr.io/metacontroller/metacontroller:v4.17.2"}]},
		"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}], "containerStatuses": [{"name": "metacontroller", "ready": true}]}}`)
	s.add("pods", "vmgroup-7d9-a", `{"metadata": {"namespace": "vmgroup-system", "labels": {"app.kubernetes.io/name": "vmgroup"}},
		"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}], "containerStatuses": [{"name": "vmgroup", "ready": true}]}}`)
	s.add("endpointslices", "vmgroup-x", `{"endpoints": [{"addresses": ["10.0.0.7"], "conditions": {"ready": true}}]}`)
	s.add(groupsCRD, "web", `{"metadata": {"namespace": "shop", "finalizers": ["metacontroller.io/compositecontroller-vmgroup"]}}`)

	der, key := s.make("vmgroup-authority", now.AddDate(10, 0, 0))
	s.ca, _ = x509.ParseCertificate(der)
	s.caKey = key
	s.secrets["vc-creds"] = map[string]string{"VC_HOST": "vc.example.com", "VC_USER": "svc", "VC_PASS": "planted-password"}
	s.secrets["vmgroup-hook-token"] = map[string]string{"token": "planted-token"}
	s.secrets["vmgroup-hook-client"] = map[string]string{"ca.crt": asPEM("CERTIFICATE", der)}
	s.issue("vmgroup-tls", now.AddDate(1, 0, 0), "vmgroup.vmgroup-system.svc")

	s.answer = Answer{Version: "v1.2.3", Fields: Fields(reflect.TypeFor[v1alpha1.VmGroup]()), Code: 200}
	s.answer.Status = page.Status{Called: true, Groups: []page.GroupStatus{{Name: "web"}}, VCenter: page.VCenterStatus{Known: true, Address: "vc.example.com"}}
	return s
}

// load adds the objects of a manifest.
func (s *stage) load(path, kind string) {
	s.t.Helper()
	text, err := os.ReadFile(path)
	must.Succeed(s.t, err)
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		var o map[string]any
		must.Succeed(s.t, yaml.Unmarshal([]byte(document), &o))
		if o["kind"] != "ServiceAccount" {
			s.objects[kind+"/"+o["metadata"].(map[string]any)["name"].(string)] = o
		}
	}
}

func (s *stage) add(kind, name, text string) {
	s.t.Helper()
	var o map[string]any
	must.Succeed(s.t, json.Unmarshal([]byte(text), &o))
	if o["metadata"] == nil {
		o["metadata"] = map[string]any{}
	}
	o["metadata"].(map[string]any)["name"] = name
	s.objects[kind+"/"+name] = o
}

func (s *stage) established(crd string) {
	s.set("crd/"+crd, "status", map[string]any{"conditions": []any{map[string]any{"type": "Established", "status": "True"}}})
}

// set sets a field of an object, by its path; nil removes it.
func (s *stage) set(object, path string, value any) {
	s.t.Helper()
	at, names := any(s.objects[object]), strings.Split(path, ".")
	for _, name := range names[:len(names)-1] {
		switch in := at.(type) {
		case map[string]any:
			if in[name] == nil {
				in[name] = map[string]any{}
			}
			at = in[name]
		case []any:
			at = in[0]
		}
		if in, is := at.([]any); is {
			at = in[0]
		}
	}
	if m := at.(map[string]any); value == nil {
		delete(m, names[len(names)-1])
	} else {
		m[names[len(names)-1]] = value
	}
}

func (s *stage) make(name string, until time.Time, hosts ...string) ([]byte, *ecdsa.PrivateKey) {
	s.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must.Succeed(s.t, err)
	c := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: now.AddDate(-2, 0, 0), NotAfter: until, DNSNames: hosts,
		BasicConstraintsValid: true, IsCA: len(hosts) == 0, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	parent, signer := s.ca, s.caKey
	if parent == nil {
		parent, signer = c, key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, signer)
	must.Succeed(s.t, err)
	return der, key
}

// issue puts a certificate for a host, and its key, into a Secret.
func (s *stage) issue(into string, until time.Time, host string) {
	s.t.Helper()
	der, key := s.make("vmgroup", until, host)
	raw, err := x509.MarshalPKCS8PrivateKey(key)
	must.Succeed(s.t, err)
	if s.secrets[into] == nil {
		s.secrets[into] = map[string]string{}
	}
	s.secrets[into]["tls.crt"], s.secrets[into]["tls.key"] = asPEM("CERTIFICATE", der), asPEM("PRIVATE KEY", raw)
}

func asPEM(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

// kubectl answers as kubectl does.
func (s *stage) kubectl(_ context.Context, input []byte, args ...string) ([]byte, error) {
	line := strings.Join(args, " ")
	s.asked = append(s.asked, line)
	if s.down {
		return nil, errors.New("The connection to the server 127.0.0.1:6443 was refused - did you specify the right host or port?")
	}
	for _, f := range s.forbidden {
		if strings.HasPrefix(line, f) {
			return nil, fmt.Errorf("Error from server (Forbidden): %s is forbidden: User \"jane\" cannot do that", args[1])
		}
	}
	switch args[0] {
	case "get":
		return s.get(args[1:])
	case "logs":
		return []byte(s.logs), nil
	case "exec":
		return json.Marshal(s.answer)
	case "create":
		var reviews struct {
			Items []map[string]any `json:"items"`
		}
		must.Succeed(s.t, json.Unmarshal(input, &reviews))
		var text []byte
		for _, r := range reviews.Items {
			what := r["spec"].(map[string]any)["resourceAttributes"].(map[string]any)
			r["status"] = map[string]any{"allowed": fmt.Sprint(what["verb"], " ", what["resource"]) != s.denied}
			answer, _ := json.Marshal(r)
			text = append(text, answer...) // not as a list
		}
		return text, nil
	}
	return nil, errors.New("unexpected: kubectl " + line)
}

func (s *stage) get(args []string) ([]byte, error) {
	switch kind := args[0]; {
	case kind == "--raw":
		return []byte(`{"gitVersion": "v1.36.3"}`), nil
	case kind == "secret":
		data := s.secrets[args[1]]
		if data == nil {
			return nil, nil
		}
		encoded := map[string][]byte{}
		for k, v := range data {
			encoded[k] = []byte(v)
		}
		return json.Marshal(map[string]any{"data": encoded})
	case kind == controllersCRD && s.objects["crd/"+controllersCRD] == nil:
		return nil, errors.New(`error: the server doesn't have a resource type "compositecontrollers"`)
	case len(args) > 1 && !strings.HasPrefix(args[1], "-"):
		if o := s.objects[kind+"/"+args[1]]; o != nil {
			return json.Marshal(o)
		}
		return nil, nil // --ignore-not-found
	default:
		line := strings.Join(args, " ")
		if strings.Contains(line, callers) {
			kind = "metacontroller"
		} else if strings.Contains(line, "CompositeController") {
			kind = "complaints"
		}
		items := []any{}
		for name, o := range s.objects {
			if strings.HasPrefix(name, kind+"/") {
				items = append(items, o)
			}
		}
		return json.Marshal(map[string]any{"items": items})
	}
}
