package planner_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/sync/planner"
	"codeconnect.vmworld.com/vmgroup/test/must"
)

// object returns a child as a Kubernetes object; for a child that is unchanged, the last applied object.
func object(t interface{ Fatal(...any) }, c *plan.Child) map[string]any {
	o := map[string]any{}
	text := c.LastApplied
	if text == "" && c.Fields != nil {
		text = asJSON(t, c.Fields)
	}
	if text != "" {
		if err := json.Unmarshal([]byte(text), &o); err != nil {
			t.Fatal(err, text)
		}
	}
	if c.LastApplied != "" {
		return o
	}
	meta := map[string]any{"name": c.Key.Name, "namespace": "default"}
	if len(c.Labels) > 0 {
		meta["labels"] = c.Labels
	}
	if len(c.Annotations) > 0 {
		meta["annotations"] = c.Annotations
	}
	kind, version, _ := strings.Cut(c.Key.Kind, ".")
	o["kind"], o["apiVersion"], o["metadata"] = kind, version, meta
	return o
}

// objects are the children by kind and name, as JSON.
func objects(t interface{ Fatal(...any) }, r *plan.Result) map[plan.ChildKey]string {
	all := map[plan.ChildKey]string{}
	for i := range r.Children {
		c := &r.Children[i]
		if _, twice := all[c.Key]; twice {
			t.Fatal("there are two of ", c.Key)
		}
		all[c.Key] = asJSON(t, object(t, c))
	}
	return all
}

// apply does what Metacontroller does with an answer's children.
func apply(t interface{ Fatal(...any) }, o *plan.Observed, r *plan.Result) {
	o.Children = map[plan.ChildKey]plan.ObservedChild{}
	for key, text := range objects(t, r) {
		var seen struct {
			Metadata  struct{ Annotations map[string]string }
			Endpoints []plan.Endpoint
		}
		must.Succeed(t, json.Unmarshal([]byte(text), &seen))
		o.Children[key] = plan.ObservedChild{LastApplied: text,
			Endpoints: plan.EndpointsSeen(seen.Endpoints, seen.Metadata.Annotations[v1alpha1.AnnotationTerminatingSince])}
	}
}

// anyAddress draws an address as a guest might report it, valid or not.
func anyAddress(t *rapid.T) string {
	return rapid.OneOf(rapid.SampledFrom([]string{"127.0.0.1", "169.254.1.1", "fe80::1", "fe80::1%eth0", "::1", "::", "0.0.0.0", "224.0.0.1",
		"ff02::1", "255.255.255.255", "::ffff:10.1.1.1", "10.0.0.010", "{{ x }}", "", "\"", "fd00::1%1", "2001:DB8:0::1"}),
		rapid.Map(rapid.IntRange(1, 250), func(n int) string { return fmt.Sprintf("10.0.0.%d", n) }),
		rapid.Map(rapid.IntRange(1, 250), func(n int) string { return fmt.Sprintf("fd00::%x", n) })).Draw(t, "address")
}

// anyServed draws an observation of a group with a Service, its ordinals far apart.
func anyServed(t *rapid.T) plan.Observed {
	o := anything(t)
	s := v1alpha1.Service{Type: rapid.SampledFrom([]v1alpha1.ServiceType{"", v1alpha1.ServiceHeadless, v1alpha1.ServiceClusterIP, v1alpha1.ServiceLoadBalancer}).Draw(t, "service"),
		DrainSeconds: rapid.SampledFrom([]int32{0, 60}).Draw(t, "drain")}
	for i := range rapid.IntRange(0, 4).Draw(t, "ports") {
		p := v1alpha1.ServicePort{Name: fmt.Sprintf("p%d", i), Port: int32(80 + i)}
		if rapid.Bool().Draw(t, "has target") {
			p.TargetPort = portOf(rapid.Int32Range(80, 83).Draw(t, "target"))
		}
		s.Ports = append(s.Ports, p)
	}
	o.Group.Spec.Service = &s
	if len(o.Group.Validate()) > 0 { // which has no children
		s.Type, s.Ports = v1alpha1.ServiceHeadless, nil
	}
	o.Group.Spec.Inventory = rapid.SampledFrom([]v1alpha1.Inventory{"", v1alpha1.InventoryConfigMap, v1alpha1.InventoryNone}).Draw(t, "inventory")
	apart := rapid.SampledFrom([]int32{1, 40, 99, 100}).Draw(t, "apart")
	for i := range o.State.VMs {
		m := &o.State.VMs[i]
		m.Ordinal *= apart
		if m.Power == plan.PoweredOn {
			m.IPs = rapid.SliceOfN(rapid.Custom(anyAddress), 0, 3).Draw(t, "addresses")
		}
	}
	for i := range o.Group.Status.Members {
		o.Group.Status.Members[i].Ordinal *= apart
	}
	o.Children = map[plan.ChildKey]plan.ObservedChild{serviceKey: {}}
	return o
}

// unstorable names the field of an object whose value the API server would store differently, or Metacontroller would merge wrongly; empty if
// there is none.
func unstorable(path string, value any) string {
	switch v := value.(type) {
	case nil:
		return path + " is null"
	case map[string]any:
		if len(v) == 0 {
			return path + " is {}"
		}
		for key, x := range v {
			if wrong := unstorable(path+"."+key, x); wrong != "" {
				return wrong
			}
		}
	case []any:
		if len(v) == 0 {
			return path + " is []"
		}
		numbers := map[any]bool{}
		for _, x := range v {
			if wrong := unstorable(path+"[]", x); wrong != "" {
				return wrong
			}
			if port, is := x.(map[string]any); is && port["port"] != nil {
				if numbers[port["port"]] {
					return fmt.Sprintf("%s has %v twice", path, port["port"])
				}
				numbers[port["port"]] = true
			}
		}
	}
	return ""
}

func TestChildrenAreStoredAsTheyAreSent(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r := planner.Make(anyServed(t))
		for i := range r.Children {
			o := object(t, &r.Children[i])
			if wrong := unstorable(r.Children[i].Key.String(), o); wrong != "" {
				t.Fatal(wrong)
			}
			if endpoints, is := o["endpoints"].([]any); is && len(endpoints) > 100 {
				t.Fatalf("%s has %d endpoints", r.Children[i].Key, len(endpoints))
			}
		}
	})
}

func TestEqualFactsGiveEqualChildrenInTheSameOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		o := anyServed(t)
		a := planner.Make(o)
		for range 2 { // the second answer records which endpoints the EndpointSlices show as terminating
			apply(t, &o, &a)
			store(t, &o, &a)
			a = planner.Make(o)
		}
		apply(t, &o, &a)
		b := planner.Make(o)
		if x, y := asJSON(t, a.Children), asJSON(t, b.Children); x != y {
			t.Fatal(difference(x, y))
		}
	})
}

func TestOneMemberTouchesAtMostOneSliceOfEachFamily(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		o := anyServed(t)
		o.Finalizing = false
		if len(o.State.VMs) == 0 {
			return
		}
		before := planner.Make(o)
		m := &o.State.VMs[rapid.IntRange(0, len(o.State.VMs)-1).Draw(t, "member")]
		switch rapid.IntRange(0, 3).Draw(t, "change") {
		case 0:
			m.IPs = rapid.SliceOfN(rapid.Custom(anyAddress), 0, 3).Draw(t, "new addresses")
		case 1:
			m.Marked = !m.Marked
		case 2:
			m.Power, m.IPs = plan.PoweredOff, nil
		case 3:
			m.Reachable = !m.Reachable
		}
		after := planner.Make(o)
		a, b := objects(t, &before), objects(t, &after)
		touched := map[string]int{}
		for _, side := range []map[plan.ChildKey]string{a, b} {
			for key := range side {
				if a[key] == b[key] {
					continue
				}
				switch {
				case key.Kind == plan.KindService:
					t.Fatal("the Service changed")
				case key.Kind == plan.KindEndpointSlice && (a[key] == "" || side[key] == a[key]):
					touched[key.Name[:len("web-ipv4")]]++
				}
			}
		}
		for family, n := range touched {
			if n > 1 {
				t.Fatalf("%d slices of %s changed", n, family)
			}
		}
	})
}

func TestAnOutageChangesNoChild(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		o := anyServed(t)
		o.Finalizing = false
		r := planner.Make(o)
		apply(t, &o, &r)
		store(t, &o, &r)
		before := objects(t, &r)
		o.State = rapid.SampledFrom([]plan.VCenterState{{}, {Known: true, VCenter: "another"}}).Draw(t, "outage")
		if o.State.Known && len(o.Group.Status.Members) == 0 {
			return
		}
		r = planner.Make(o)
		if after := objects(t, &r); asJSON(t, fmt.Sprint(after)) != asJSON(t, fmt.Sprint(before)) {
			t.Fatal(difference(fmt.Sprint(after), fmt.Sprint(before)))
		}
	})
}

func TestChildrenThatTheSpecNoLongerNamesGoEvenDuringAnOutage(t *testing.T) {
	t.Parallel()
	o := served(1, v1alpha1.Service{Ports: web})
	r := planner.Make(o)
	apply(t, &o, &r)
	o.State = plan.VCenterState{}
	o.Group.Spec.Service.Type = v1alpha1.ServiceClusterIP
	if r = planner.Make(o); len(r.Children) != 4 {
		t.Errorf("with a Service of another type: %s", asJSON(t, r.Children))
	}
	o.Group.Spec.Service = nil
	if r = planner.Make(o); len(r.Children) != 1 || r.Children[0].Key.Kind != plan.KindConfigMap {
		t.Errorf("without a Service: %s", asJSON(t, r.Children))
	}
}

func TestChildrenWithoutARecordAreRebuiltFromTheStatusDuringAnOutage(t *testing.T) {
	t.Parallel()
	o := served(3, v1alpha1.Service{Ports: web, DrainSeconds: 60})
	o.State.VMs[2].Marked, o.State.VMs[2].MarkedAt = true, now
	*o.Group.Spec.Replicas = 2
	r := planner.Make(o)
	before := objects(t, &r)
	apply(t, &o, &r)
	store(t, &o, &r)
	for key := range o.Children {
		o.Children[key] = plan.ObservedChild{}
	}
	stray := plan.ChildKey{Kind: plan.KindEndpointSlice, Name: "web-ipv4-7"}
	o.Children[stray] = plan.ObservedChild{}
	o.State = plan.VCenterState{}
	r = planner.Make(o)
	after := objects(t, &r)
	if want := `{"apiVersion":"discovery.k8s.io/v1","kind":"EndpointSlice","metadata":{"name":"web-ipv4-7","namespace":"default"}}`; after[stray] != want {
		t.Errorf("a child that the status does not name is %s", after[stray])
	}
	delete(after, stray)
	if a, b := fmt.Sprint(after), fmt.Sprint(before); a != b {
		t.Error(difference(a, b))
	}
}

func TestADeletedGroupKeepsItsChildrenOnlyWhileItsMembersAreDrained(t *testing.T) {
	t.Parallel()
	o := served(2, v1alpha1.Service{Ports: web, DrainSeconds: 60})
	remove(&o)
	r := planner.Make(o)
	if len(r.Children) != 4 {
		t.Fatalf("children while members are drained: %s", asJSON(t, r.Children))
	}
	for _, text := range objects(t, &r) {
		if strings.Contains(text, "EndpointSlice") && strings.Count(text, `"ready":false,"serving":true,"terminating":true`) != 2 {
			t.Errorf("a slice of members that are drained: %s", text)
		}
	}
	o.Group.DeletionTimestamp.Time = now.Add(-60e9)
	if r = planner.Make(o); len(r.Children) != 4 {
		t.Errorf("children when it may be a fraction of a second less than a minute: %s", asJSON(t, r.Children))
	}
	o.Group.DeletionTimestamp.Time = now.Add(-61e9)
	if r = planner.Make(o); len(r.Children) != 0 {
		t.Errorf("children afterwards: %s", asJSON(t, r.Children))
	}
}
