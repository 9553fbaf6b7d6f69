package test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/metacontroller"
	"codeconnect.vmworld.com/vmgroup/test/must"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// endpoints returns the endpoints of all slices of the group, as "name ready|serving|terminating", in order.
func endpoints(t testing.TB, g *metacontroller.Group) []string {
	t.Helper()
	var all []string
	for _, raw := range g.Children["EndpointSlice.discovery.k8s.io/v1"] {
		var slice struct {
			Endpoints []struct {
				Addresses  []string
				Hostname   string
				Conditions struct{ Ready, Serving, Terminating bool }
			}
		}
		must.Succeed(t, json.Unmarshal(raw, &slice))
		for _, e := range slice.Endpoints {
			if len(e.Addresses) != 1 {
				t.Errorf("%s has the addresses %v; want one", e.Hostname, e.Addresses)
			}
			text := e.Hostname
			if e.Conditions.Ready {
				text += " ready"
			}
			if !e.Conditions.Serving {
				text += " down"
			}
			if e.Conditions.Terminating {
				text += " terminating"
			}
			all = append(all, text)
		}
	}
	slices.Sort(all)
	return all
}

// Tools may report docker0's address as the guest's primary one.
func TestDocker0sAddressIsNeverPublishedAndChangesNoEndpoint(t *testing.T) {
	inChangeRig(t, vcsim.Guest{Tools: true, IP: 10 * time.Second}, func(t *testing.T, r *rig) {
		g := r.serve().group("web", 2)
		g.Spec.Readiness.Check = v1alpha1.ReadyGuestIP
		g.Spec.Service = &v1alpha1.Service{Ports: []v1alpha1.ServicePort{{Port: 80}}}
		up(t, g)
		children := fmt.Sprint(g.Children)
		r.must(r.StartDocker(webFolder + "web-0"))
		for range 20 {
			time.Sleep(time.Second)
			_, err := g.Sync(within(t))
			r.must(err)
			if is := fmt.Sprint(g.Children); is != children {
				t.Fatalf("docker0 changed children:\n%s\n%s", children, is)
			}
		}
		r.must(r.Reset(webFolder + "web-1"))
		eventually(t, patience, "web-1's Tools run again", func() bool { return r.StartDocker(webFolder+"web-1") == nil })
		time.Sleep(2 * time.Second)
		_, err := g.Sync(within(t))
		r.must(err)
		if d := r.details(webFolder + "web-1"); d.IP != docker0 {
			t.Fatalf("primary address: %s; want %s", d.IP, docker0)
		}
		equal(t, endpoints(t, g), []string{"web-0 ready", "web-1 ready"}) // web-1 has not reported its own address since the reset, so its endpoint keeps the former address
		up(t, g)
		if is := fmt.Sprint(g.Children); is != children {
			t.Errorf("docker0 changed children:\n%s\n%s", children, is)
		}
		remove(t, g)
	})
}

func TestAnAddressThatComesLaterIsPublishedAtOnce(t *testing.T) {
	inChangeRig(t, vcsim.Guest{Tools: true}, func(t *testing.T, r *rig) {
		g := r.serve().group("web", 1)
		g.Spec.Readiness.Check = v1alpha1.ReadyGuestIP
		up(t, g)
		r.must(r.AddIP(webFolder+"web-0", "fd00::7"))
		time.Sleep(2 * time.Second)
		a, err := g.Sync(within(t))
		r.must(err)
		if ips := a.Status.Members[0].IPs; len(ips) != 2 || ips[1] != "fd00::7" {
			t.Errorf("after two seconds: addresses %v", ips)
		}
		remove(t, g)
	})
}
