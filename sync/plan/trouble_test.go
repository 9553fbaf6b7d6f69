package plan

import (
	"reflect"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
)

func TestWhoCanEndATrouble(t *testing.T) {
	outage := VCenterState{Fault: &Fault{Reason: "InvalidLogin", NeedsOperator: true, Message: "wrong"}}
	for name, c := range map[string]struct {
		phase              v1alpha1.Phase
		reason             string
		available, desired int32
		state              VCenterState
		finalizing         bool
		want               Trouble
	}{
		"none":                                 {v1alpha1.PhaseRunning, ReasonReconciled, 3, 3, VCenterState{Known: true}, false, Trouble{}},
		"vCenter's state is unknown":           {v1alpha1.PhasePending, "InvalidLogin", 3, 3, outage, false, Trouble{"InvalidLogin", OfVCenter, Unharmed}},
		"it is being read":                     {v1alpha1.PhasePending, ReasonInventoryNotRead, 0, 3, VCenterState{}, false, Trouble{ReasonInventoryNotRead, OfVCenter, Down}},
		"what was wrong before an outage":      {v1alpha1.PhaseError, "TemplateNotFound", 2, 3, outage, false, Trouble{"TemplateNotFound", OfGroup, Degraded}},
		"the site's trouble before an outage":  {v1alpha1.PhaseError, "DatastoreFull", 0, 3, outage, false, Trouble{"DatastoreFull", OfSite, Down}},
		"a host is down":                       {v1alpha1.PhasePending, ReasonUnreachable, 1, 3, VCenterState{Known: true}, false, Trouble{ReasonUnreachable, OfSite, Degraded}},
		"the spec":                             {v1alpha1.PhaseError, "TemplateNotFound", 0, 3, VCenterState{Known: true}, false, Trouble{"TemplateNotFound", OfGroup, Down}},
		"the server's settings":                {v1alpha1.PhaseError, "DatacenterAmbiguous", 3, 3, VCenterState{Known: true, Fault: &Fault{Reason: "DatacenterAmbiguous"}}, false, Trouble{"DatacenterAmbiguous", OfSite, Unharmed}},
		"the same reason in the group's spec":  {v1alpha1.PhaseError, "DatacenterAmbiguous", 3, 3, VCenterState{Known: true}, false, Trouble{"DatacenterAmbiguous", OfGroup, Unharmed}},
		"a deletion, whose members aren't due": {v1alpha1.PhasePending, ReasonFinalizing, 0, 3, VCenterState{Known: true}, true, Trouble{ReasonFinalizing, OfGroup, Unharmed}},
	} {
		status := &v1alpha1.VmGroupStatus{Phase: c.phase, AvailableReplicas: c.available, CurrentReplicas: 3, DesiredReplicas: c.desired,
			Conditions: []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: c.reason}}}
		if got := TroubleOf(status, &c.state, c.finalizing); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

func TestAGroupThatIsBeingMadeIsNotDown(t *testing.T) {
	if got := HarmOf(&v1alpha1.VmGroupStatus{DesiredReplicas: 3}, false); got != Degraded {
		t.Error(got)
	}
}

func TestTroublesOfHostsAreCountedByHostAndState(t *testing.T) {
	vm := func(host, state string) VM { return VM{Host: host, Unreachable: state, Reachable: state == ""} }
	web, db := Ref{Namespace: "shop", Name: "web"}, Ref{Namespace: "shop", Name: "db"}
	got := HostTroubles([]Listed{{web, []VM{vm("esx-1", "disconnected"), vm("esx-2", ""), vm("esx-1", "disconnected")}}, {db, []VM{vm("esx-1", "disconnected"), vm("esx-1", "inaccessible"), vm("", "orphaned")}}})
	want := []HostTrouble{{Host: "esx-1", State: "disconnected", Members: 3, Groups: []Ref{web, db}}, {State: "orphaned", Members: 1, Groups: []Ref{db}}, {Host: "esx-1", State: "inaccessible", Members: 1, Groups: []Ref{db}}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
}
