package judges

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	lua "github.com/yuin/gopher-lua"
	"go.yaml.in/yaml/v2"
	luajson "layeh.com/gopher-json"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/metacontroller"

	"codeconnect.vmworld.com/vmgroup/test/must"
)

// healthScript is the documents' script that shows Argo CD the health of VmGroups.
func healthScript(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(repository, "manifests/argocd/argocd-cm.yaml"))
	must.Succeed(t, err)
	var patch struct{ Data map[string]string }
	must.Succeed(t, yaml.UnmarshalStrict(text, &patch))
	return patch.Data["resource.customizations.health.vm.codeconnect.vmworld.com_VmGroup"]
}

// health runs the script as Argo CD does: in its Lua interpreter, with the libraries package, base and table,
// and with the object as obj (argo-cd, util/lua/lua.go, runLua and ExecuteHealthLua).
func health(t *testing.T, script string, object any) (status, message string) {
	t.Helper()
	l := lua.NewState(lua.Options{SkipOpenLibs: true})
	defer l.Close()
	for name, open := range map[string]lua.LGFunction{lua.LoadLibName: lua.OpenPackage, lua.BaseLibName: lua.OpenBase, lua.TabLibName: lua.OpenTable} {
		must.Succeed(t, l.CallByParam(lua.P{Fn: l.NewFunction(open), Protect: true}, lua.LString(name)))
	}
	ctx, cancel := context.WithTimeout(t.Context(), timeout) // Argo CD gives the script one second
	defer cancel()
	l.SetContext(ctx)
	text, err := json.Marshal(object)
	must.Succeed(t, err)
	obj, err := luajson.Decode(l, text)
	must.Succeed(t, err)
	l.SetGlobal("obj", obj)
	must.Succeed(t, l.DoString(script))
	answer, err := luajson.Encode(l.Get(-1))
	must.Succeed(t, err)
	var h struct{ Status, Message string }
	must.Succeed(t, json.Unmarshal(answer, &h))
	return h.Status, h.Message
}

func TestArgoCDDistinguishesABlockedGroupFromOneInProgress(t *testing.T) {
	t.Parallel()
	script := healthScript(t)
	s := newSite(t, false)
	running := s.up(t, "web", 1, nil)
	expect := func(what string, g *v1alpha1.VmGroup, want, says string) {
		t.Helper()
		if status, message := health(t, script, g); status != want || !strings.Contains(message, says) {
			t.Errorf("%s: %s: %s; want %s and %q in the text", what, status, message, want, says)
		}
	}
	group := func(g *metacontroller.Group) *v1alpha1.VmGroup {
		object := &v1alpha1.VmGroup{Spec: g.Spec, Status: g.Status}
		object.Generation, object.Status.ObservedGeneration = g.Generation, g.Generation
		return object
	}
	expect("no status", &v1alpha1.VmGroup{}, "Progressing", "has not called the server")
	expect("settled", group(running), "Healthy", "successfully reconciled VmGroup")
	edited := group(running)
	edited.Generation++
	expect("edited", edited, "Progressing", "the spec was edited")
	next := func(want v1alpha1.Phase) *v1alpha1.VmGroup {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), timeout)
		defer cancel()
		_, err := running.Until(ctx, func(a metacontroller.Answer) bool { return a.Status.Phase == want })
		must.Succeed(t, err)
		return group(running)
	}
	replicas := int32(2)
	running.Spec.Replicas = &replicas
	running.Generation++
	expect("another member", next(v1alpha1.PhasePending), "Progressing", "1 member")
	next(v1alpha1.PhaseRunning)
	replicas, running.Spec.Paused = 3, true
	running.Generation++
	expect("paused", next(v1alpha1.PhasePending), "Suspended", "spec.paused")
	running.Spec.Paused, running.Spec.Template = false, "no-such-template"
	running.Generation++
	expect("a missing template", next(v1alpha1.PhaseError), "Degraded", "docs/troubleshooting.md#templatenotfound")
}
