package test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/vmware/govmomi/object"

	"codeconnect.vmworld.com/vmgroup/sync/metacontroller"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// maintain puts a host into maintenance, or ends that.
func (r *rig) maintain(path string, in bool) {
	r.t.Helper()
	host := object.NewHostSystem(r.Admin().Client, value(r.Find(path)))
	change := func(ctx context.Context) (*object.Task, error) { return host.ExitMaintenanceMode(ctx, 0) }
	if in {
		change = func(ctx context.Context) (*object.Task, error) { return host.EnterMaintenanceMode(ctx, 0, false, nil) }
	}
	task, err := change(within(r.t))
	r.must(err)
	r.must(task.Wait(within(r.t)))
}

// Members are cloned although each host is in maintenance. Once one is back, they run there, though DRS is off.
func TestAMemberLeavesAHostInMaintenanceThatItWasClonedOn(t *testing.T) {
	for _, permitted := range []bool{true, false} {
		t.Run(map[bool]string{true: "with the privilege", false: "without"}[permitted], func(t *testing.T) {
			inRig(t, vcsim.Config{Hosts: 3}, func(t *testing.T, r *rig) {
				r.must(r.SetDRS(apartIn, vcsim.DRS{Off: true}))
				role := leastRole()
				if !permitted {
					role = slices.DeleteFunc(role, func(id string) bool { return id == "Resource.ColdMigrate" })
				}
				r.Restrict(role...)
				hosts := []string{apartIn + "/DC0_C0_H0", apartIn + "/DC0_C0_H1", apartIn + "/DC0_C0_H2"}
				for _, host := range hosts {
					r.maintain(host, true)
				}
				g := r.serve(inCluster0).group("web", 2)
				until(t, g, "the status names the host and its state", func(a metacontroller.Answer) bool {
					return strings.Contains(a.Status.LastMessage, "DC0_C0_H") && strings.Contains(a.Status.LastMessage, "maintenance")
				})
				was := r.details(webFolder + "web-0").Host
				back := slices.DeleteFunc(slices.Clone(hosts), func(host string) bool { return host == was || host == r.details(webFolder+"web-1").Host })[0]
				r.maintain(back, false)
				if !permitted {
					if text := blocked(t, g, "MissingPrivilege"); !strings.Contains(text, "Resource.ColdMigrate") {
						t.Errorf("the status says %q; want the missing privilege", text)
					}
					return
				}
				up(t, g)
				if on := r.hostsOf(); on[back] != 2 {
					t.Errorf("the members are on the hosts %v; want both on %s", on, back)
				}
			})
		})
	}
}
