package planner_test

import (
	"testing"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/planner"
)

// If a spec that the schema forbids is stored nevertheless, the tenant doesn't get what the schema forbids.
func TestARefusedSpecHasNoChildren(t *testing.T) {
	t.Parallel()
	many := make([]v1alpha1.ServicePort, 50_000)
	for name, service := range map[string]v1alpha1.Service{
		"port 0":                {Ports: []v1alpha1.ServicePort{{Port: 0}}},
		"too many ports":        {Ports: many},
		"one port twice":        {Ports: []v1alpha1.ServicePort{{Name: "a", Port: 53}, {Name: "b", Port: 53, Protocol: "UDP"}}},
		"Metacontroller's own":  {Annotations: map[string]string{"metacontroller.k8s.io/last-applied-configuration": "{}"}},
		"Metacontroller's new":  {Annotations: map[string]string{"metacontroller.io/decorator-controller": "x"}},
		"kubectl's last record": {Annotations: map[string]string{"kubectl.kubernetes.io/last-applied-configuration": "{}"}},
	} {
		o := served(2, service)
		o.Children = nil
		r := planner.Make(o)
		if r.Status.Phase != v1alpha1.PhaseError || len(r.Children) != 0 || len(r.Actions) != 0 {
			t.Errorf("%s: phase %s, %d children, %d actions", name, r.Status.Phase, len(r.Children), len(r.Actions))
		}
	}
}

func TestChildrenOfARefusedSpecStayAsLastApplied(t *testing.T) {
	t.Parallel()
	o := served(2, v1alpha1.Service{})
	r := planner.Make(o)
	apply(t, &o, &r)
	r = planner.Make(o)
	apply(t, &o, &r) // the EndpointSlices come once the Service is seen
	was := planner.Make(o)
	for _, known := range []bool{true, false} {
		o.State.Known = known
		o.Group.Spec.Service = &v1alpha1.Service{Ports: []v1alpha1.ServicePort{{Port: 0}}}
		o.Group.Spec.Inventory = v1alpha1.InventoryNone // this removes nothing either
		r = planner.Make(o)
		if len(r.Children) != len(was.Children) || len(r.Children) != len(o.Children) {
			t.Fatalf("%d children of %d", len(r.Children), len(o.Children))
		}
		for _, c := range r.Children {
			if c.LastApplied == "" || c.LastApplied != o.Children[c.Key].LastApplied {
				t.Errorf("%s is not as it was applied last: %+v", c.Key, c)
			}
		}
	}
}
