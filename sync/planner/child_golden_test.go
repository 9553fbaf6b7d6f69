package planner_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/sync/planner"
	"codeconnect.vmworld.com/vmgroup/test/must"
)

// served is a group of n ready members with addresses of both families, and a Service.
func served(n int32, s v1alpha1.Service) plan.Observed {
	o := observed(n)
	o.Group.Spec.Service = &s
	for i := range n {
		m := vm(&o, i)
		m.Home = plan.HomeOf(&o.Group.Spec).String()
		m.IPs = []string{fmt.Sprintf("10.0.%d.%d", i/250, i%250+1), fmt.Sprintf("fd00::%x", i+1)}
		o.State.VMs = append(o.State.VMs, m)
	}
	o.Children = map[plan.ChildKey]plan.ObservedChild{serviceKey: {}} // the server creates EndpointSlices only once the Service exists
	return o
}

func portOf(n int32) *int32 { return &n }

var web = []v1alpha1.ServicePort{{Name: "http", Port: 80, TargetPort: portOf(8080), AppProtocol: "http"}, {Name: "dns", Port: 53, Protocol: "UDP"}}

// The golden files contain the children as the server sends them to Kubernetes, so that reviewers can read them. Each file is a List, which
// kubectl apply accepts.
func TestChildrenMatchTheGoldenFiles(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]plan.Observed{
		"plain": func() plan.Observed {
			o := served(3, v1alpha1.Service{})
			o.Group.Spec.Service = nil
			o.State.VMs[1].IPs, o.State.VMs[1].Power = nil, plan.PoweredOff
			return o
		}(),
		"headless": served(2, v1alpha1.Service{Ports: web, Annotations: map[string]string{"example.com/team": "web"}}),
		"headless-without-ports": func() plan.Observed {
			o := served(2, v1alpha1.Service{Type: v1alpha1.ServiceHeadless})
			o.Group.Spec.Inventory = v1alpha1.InventoryNone
			return o
		}(),
		"clusterip": served(1, v1alpha1.Service{Type: v1alpha1.ServiceClusterIP, Ports: []v1alpha1.ServicePort{{Port: 443, Protocol: "TCP"}}}),
		"loadbalancer": served(1, v1alpha1.Service{Type: v1alpha1.ServiceLoadBalancer, Ports: []v1alpha1.ServicePort{{Port: 443, Protocol: "TCP"}},
			Annotations: map[string]string{"metallb.io/address-pool": "public"}}),
		"drained-and-unreachable": func() plan.Observed {
			o := served(3, v1alpha1.Service{DrainSeconds: 60})
			o.State.VMs[1].Reachable, o.State.VMs[1].Unreachable = false, "disconnected"
			o.State.VMs[2].Marked, o.State.VMs[2].MarkedAt = true, now
			return o
		}(),
		"250-members": func() plan.Observed {
			o := served(250, v1alpha1.Service{Ports: web[:1]})
			for i := range o.State.VMs {
				o.State.VMs[i].IPs = o.State.VMs[i].IPs[:1]
			}
			return o
		}(),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := planner.Make(o)
			var items []string
			for i := range r.Children {
				text, err := json.MarshalIndent(object(t, &r.Children[i]), "", " ")
				must.Succeed(t, err)
				items = append(items, string(text))
			}
			got := `{"apiVersion": "v1", "kind": "List", "items": [` + strings.Join(items, ", ") + "]}\n"
			file := filepath.Join("testdata", "children", name+".json")
			if *update {
				must.Succeed(t, os.WriteFile(file, []byte(got), 0o644))
			}
			want, err := os.ReadFile(file)
			must.Succeed(t, err)
			if got != string(want) {
				t.Errorf("%s differs (go test ./sync/planner -update rewrites it):\n%s", file, difference(got, string(want)))
			}
		})
	}
}
