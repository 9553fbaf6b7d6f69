package page

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/test/must"
)

// lost is a group of which vCenter can't reach some members, which are on one host.
func lost(name, host string, of, unreachable int) plan.Report {
	g := quiet()
	g.Name, g.UID, g.Phase, g.DesiredReplicas, g.Members = name, types.UID(name), v1alpha1.PhasePending, int32(of), g.Members[:of]
	g.Message = "skipped VMs that vCenter can't reach or show"
	g.Faults = []plan.FaultReport{{Condition: v1alpha1.ConditionMembersUnreachable, Reason: plan.ReasonUnreachable, Message: "some"}}
	for i := range unreachable {
		m := &g.Members[i]
		m.Host, m.PowerState, m.Ready, m.Reason, m.LastTransitionTime = host, "poweredOn", false, plan.ReasonUnreachable, metav1.NewTime(began.Add(-time.Duration(i)*time.Minute))
		m.Message = plan.Joined("the VM is disconnected: skipped", plan.AsLastKnown)
	}
	return g
}

// asked returns an overview as text, and its status.
func asked(t *testing.T, groups ...plan.Report) (text string, status Status) {
	t.Helper()
	p := New(Config{Source: &source{groups: groups, health: plan.Health{Known: true}}})
	_, body, _ := get(p, "/", "")
	r, w := httptest.NewRequest(http.MethodGet, "/", http.NoBody), httptest.NewRecorder()
	r.Header.Set("Accept", "application/json")
	p.ServeHTTP(w, r)
	must.Succeed(t, json.Unmarshal(w.Body.Bytes(), &status))
	return textOf(t, body), status
}

func TestAHostThatIsDownIsNamedOnceWithItsGroupsAndTheWorstComesFirst(t *testing.T) {
	t.Parallel()
	groups := []plan.Report{quiet(), lost("most", "esx-3", 3, 1), lost("none", "esx-3", 2, 2), lost("some", "esx-4", 3, 1)}
	text, status := asked(t, groups...)
	says(t, text, "vCenter can't reach 3 members on the host esx-3 since 2026-11-22 08:59:00 UTC : shop/most , shop/none . The server leaves them alone",
		"vCenter can't reach 1 member on the host esx-4 since", "3 Unreachable vCenter can't reach members")
	if n := strings.Count(text, "esx-3"); n != 1 {
		t.Errorf("the host is named %d times: %s", n, text)
	}
	var order []string
	for i := range status.Groups {
		order = append(order, fmt.Sprintf("%s %s %d/%d", status.Groups[i].Name, status.Groups[i].State, status.Groups[i].Ready, status.Groups[i].Desired))
	}
	if !slices.Equal(order, []string{"none Unreachable 0/2", "most Unreachable 2/3", "some Unreachable 2/3", "web Running 8/8"}) {
		t.Errorf("%q", order)
	}
	if len(status.Hosts) != 2 || status.Hosts[0].Host != "esx-3" || status.Hosts[0].Members != 3 || !slices.Equal(status.Hosts[0].Groups, []string{"shop/most", "shop/none"}) || status.Hosts[0].Of != 2 {
		t.Errorf("%+v", status.Hosts)
	}
	p := New(Config{Source: &source{groups: groups, health: plan.Health{Known: true}}})
	_, body, _ := get(p, groupPath+"shop/none", "")
	says(t, textOf(t, body), "Unreachable since 2026-11-22 09:00:00 UTC", "power, addresses and host as last known", "last known poweredOn", "last known esx-3")
}

func TestMoreGroupsThanTenOfAHostAreCounted(t *testing.T) {
	t.Parallel()
	var groups []plan.Report
	for i := range 12 {
		groups = append(groups, lost(fmt.Sprintf("g%02d", i), "esx-3", 2, 1))
	}
	text, status := asked(t, groups...)
	says(t, text, "shop/g09 and other groups, 12 in all")
	if h := status.Hosts[0]; len(h.Groups) != 10 || h.Of != 12 || h.Members != 12 {
		t.Errorf("%+v", h)
	}
}

// A guest that may hang must not be among the groups that run, which are only counted if they are many.
func TestAGroupWhoseGuestsAreSilentIsMarkedAndListed(t *testing.T) {
	t.Parallel()
	var groups []plan.Report
	for i := range 20 {
		g := quiet()
		g.Name, g.UID = fmt.Sprintf("g%02d", i), types.UID(fmt.Sprint(i))
		groups = append(groups, g)
	}
	silent := &groups[15]
	silent.Members[3].Reason, silent.Members[3].Message = plan.ReasonToolsSilent, "VMware Tools do not run in its guest"
	silent.Faults = []plan.FaultReport{{Condition: v1alpha1.ConditionToolsSilent, Reason: plan.ReasonToolsSilent, Message: "web-3"}}
	text, status := asked(t, groups...)
	says(t, text, "1 Tools silent runs; guests may hang", "g15 shop 8 of 8 successfully reconciled VmGroup ToolsSilent", "19 groups run as their specs say")
	if g := status.Groups[0]; g.Name != "g15" || g.State != "Tools silent" || len(g.Why) != 1 || g.Why[0].Todo == "" {
		t.Errorf("%+v", g)
	}
	p := New(Config{Source: &source{groups: groups, health: plan.Health{Known: true}}})
	_, body, _ := get(p, groupPath+"shop/g15", "")
	says(t, textOf(t, body), "Ready, silent", "ToolsSilent web-3", "None: the group is as its spec says.")
}

// Living groups that another replica is called for looked as if none of their members were ready.
func TestOfAGroupThatIsNotCalledOnlyTheVMsAreCounted(t *testing.T) {
	t.Parallel()
	listed := plan.Listed{Ref: plan.Ref{Namespace: "shop", Name: "web", UID: "u"}, VMs: []plan.VM{{MoRef: "vm-1", Reachable: true}, {MoRef: "vm-2", Ordinal: 1, Host: "esx-3", Unreachable: "disconnected"}}}
	text, status := asked(t, listed.Report(true))
	says(t, text, "2 VMs", "vCenter can't reach 1 member on the host esx-3")
	if g := status.Groups[0]; g.VMs != 2 || g.Ready != 0 || g.Desired != 0 {
		t.Errorf("%+v", g)
	}
}
