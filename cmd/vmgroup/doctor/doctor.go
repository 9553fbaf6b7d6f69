// Package doctor examines an install of VmGroup from end to end: what Metacontroller needs to call the hooks, what the server needs to
// answer them, and what the server says about itself. It reads the cluster with kubectl alone, with the user's rights, so it also works
// while no server runs. It changes nothing.
package doctor

import (
	"context"
	"fmt"
	"time"
)

// Level is the outcome of a check.
type Level string

// The outcomes. A check is Unseen if the user's rights, or another fault, don't allow the check: it may hold or not.
const (
	OK     Level = "ok"
	Warn   Level = "warning"
	Fail   Level = "failed"
	Unseen Level = "unseen"
)

// Finding is the outcome of a check.
type Finding struct {
	Category string `json:"category"`
	// Check is a sentence that is true if the level is OK.
	Check  string `json:"check"`
	Level  Level  `json:"level"`
	Detail string `json:"detail,omitempty"`
	// Todo says what to do.
	Todo string `json:"todo,omitempty"`
}

// Install names an install of VmGroup in a cluster.
type Install struct {
	// Namespace and Name are those of the server's Deployment. Its Service has the same name.
	Namespace, Name string
	// Version is that of the program that examines, and Fields are the fields of a VmGroup that this program knows.
	Version string
	Fields  []string
	// Now is the time with which certificates and Events are compared.
	Now time.Time
}

// Kubectl runs kubectl with the user's rights and returns its standard output. input can be nil. The error has what kubectl wrote to its
// standard error.
type Kubectl func(ctx context.Context, input []byte, args ...string) ([]byte, error)

// Examine makes all checks, in the order in which a fault of one causes faults of the next ones.
func Examine(ctx context.Context, kubectl Kubectl, install Install) []Finding {
	x := &examination{Install: install, cluster: &cluster{ctx: ctx, kubectl: kubectl}}
	for _, part := range []struct {
		category string
		checks   func()
	}{
		{"kubernetes", x.kubernetes}, {"metacontroller", x.metacontroller}, {"composite-controller", x.compositeController},
		{"server", x.server}, {"keys", x.keys}, {"network", x.network}, {"hooks", x.hooks}, {"groups", x.groups},
	} {
		x.category = part.category
		if part.checks(); x.lost {
			break
		}
	}
	return x.findings
}

// examination collects the findings, and what later checks need of earlier ones.
type examination struct {
	Install
	*cluster
	category string
	findings []Finding
	// lost reports that the API server doesn't answer, so nothing else can be read.
	lost bool

	crd         *definition
	caller      *pod                  // a pod of Metacontroller
	controllers []compositeController // all that call hooks for VmGroups
	controller  *compositeController  // the one that calls this server
	deployment  *deployment
	pods        []pod
	secrets     map[string]secretRead
}

func (x *examination) say(level Level, check, detail, todo string) {
	x.findings = append(x.findings, Finding{x.category, check, level, detail, todo})
}

func (x *examination) ok(format string, args ...any) { x.say(OK, fmt.Sprintf(format, args...), "", "") }

func (x *examination) fail(check, detail, todo string) { x.say(Fail, check, detail, todo) }

func (x *examination) warn(check, detail, todo string) { x.say(Warn, check, detail, todo) }

// unseen says that a check can't be made. Missing rights are not a fault of the install.
func (x *examination) unseen(check string, err error) {
	x.say(Unseen, check, err.Error(), "")
}

// kubernetes checks the API server and the CRD.
func (x *examination) kubernetes() {
	const reach = "kubectl reaches the API server"
	var version struct{ GitVersion string }
	if err := x.read(&version, "get", "--raw", "/version"); err != nil {
		x.lost = true
		x.fail(reach, err.Error(), "Correct kubectl's context (--context), or wait for the API server: nothing else can be checked")
		return
	}
	x.ok("%s (%s)", reach, version.GitVersion)

	const exists = "the CRD of VmGroups is established"
	crd, found, err := one[definition](x.cluster, "crd", groupsCRD)
	switch {
	case err != nil:
		x.unseen(exists, err)
	case !found:
		x.fail(exists, "there is no CustomResourceDefinition "+groupsCRD, "Install VmGroup (docs/install.md)")
	case !crd.established():
		x.fail(exists, crd.why(), "Apply the CRD of the server's release again: kubectl apply -k charts/vmgroup/files/cluster")
	case crd.served() == nil:
		x.fail(exists, "it doesn't serve the version "+apiVersion, "Apply the CRD of the server's release")
	default:
		x.crd = crd
		x.ok(exists)
	}
}

// compareFields compares the CRD with the fields that a program knows: the API server silently drops fields that the CRD lacks.
func (x *examination) compareFields(fields []string, of string) {
	if x.crd == nil || len(fields) == 0 {
		return
	}
	check := "the CRD has the fields of " + of
	lacks, unknown := differences(x.crd.fields(), fields)
	switch {
	case len(lacks) > 0:
		x.fail(check, "it lacks "+list(lacks), "Apply the CRD of that release: without a field, the API server drops its value")
	case len(unknown) > 0:
		x.warn(check, "it also has "+list(unknown)+", which "+of+" ignores", "Upgrade the server to the CRD's release, or apply the CRD of the server's release")
	default:
		x.ok("%s", check)
	}
}
