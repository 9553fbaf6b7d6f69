package test

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"net/http"
	"path"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	vim "github.com/vmware/govmomi/vim25/types"
	"k8s.io/apimachinery/pkg/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/metacontroller"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/stamp"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// A stranger has rights on VMs of his own, in a folder of his own, and can write any stamp into them. He may have read the stamp of a member.

// strangersFolder is a folder in which a stranger has rights.
const strangersFolder = "/DC0/vm/tenant-b"

// forge makes a stranger's VM with a stamp, unless that has no UID, and watches it from then on. With a copied identity, it has the instanceUuid of the
// VM that the stamp is of.
func (r *rig) forge(folder, name string, s stamp.Stamp, copied, on bool) *untouched {
	r.t.Helper()
	_, err := r.MakeFolder(folder)
	r.must(err)
	ref, err := r.AddVM(folder, name)
	r.must(err)
	where := folder + "/" + name
	if on {
		r.must(r.PowerOn(where))
		time.Sleep(bootTime + time.Second)
	}
	if copied {
		r.must(r.Reconfigure(where, vim.VirtualMachineConfigSpec{InstanceUuid: s.InstanceUUID}))
	} else {
		s.InstanceUUID = r.details(where).InstanceUUID
	}
	if s.UID != "" {
		r.must(r.SetExtraConfig(where, stamp.Key, s.Encode()))
	}
	return r.untouched(ref)
}

// forgery is what a stranger writes into the stamps of his VMs, beginning with that of a member.
type forgery struct {
	what  string
	write []func(*stamp.Stamp) // one for each of his VMs
}

// forgeries are the attacks that were reported (issue: forged stamps); each did what its comment says.
var forgeries = []forgery{
	{"the ordinal of a member, created in 2099", []func(*stamp.Stamp){func(s *stamp.Stamp) { // the member went into quarantine, and the VM's address to the Service
		s.Created = time.Date(2099, 1, 1, 0, 0, 0, 0, time.UTC)
	}}},
	{"ordinals beyond the members'", []func(*stamp.Stamp){ // with scaleIn.order Oldest, both members were destroyed
		func(s *stamp.Stamp) { s.Ordinal = 100 },
		func(s *stamp.Stamp) { s.Ordinal, s.Created = 101, s.Created.Add(time.Hour) },
	}},
	{"the ordinal after the members'", []func(*stamp.Stamp){func(s *stamp.Stamp) { s.Ordinal = 2 }}}, // a member was destroyed, because there was one too many
	{"in quarantine, of the highest generation", []func(*stamp.Stamp){func(s *stamp.Stamp) { // Superseded, for ever
		s.Quarantined, s.Generation = s.Created, math.MaxInt32
	}}},
	{"of another vCenter", []func(*stamp.Stamp){func(s *stamp.Stamp) { s.VCenter = "9f6a7c1e-0000-4000-8000-000000000001" }}}, // VCenterChanged; the deletion didn't end
	{"of another home", []func(*stamp.Stamp){func(s *stamp.Stamp) { s.Home = "DC0:elsewhere" }}},                              // PlacementImmutable
	{"of a group that doesn't exist", []func(*stamp.Stamp){func(s *stamp.Stamp) { // a group in /groups, and a target in /sd
		s.UID, s.Namespace, s.Name = "9f6a7c1e-0000-4000-8000-000000000002", "kube-system", "apiserver"
	}}},
}

// changedFields has, for each key of a stamp, other values that a stranger could write.
var changedFields = map[string][]func(*stamp.Stamp){
	"cluster":           {func(s *stamp.Stamp) { s.Cluster = "another" }},
	"namespace":         {func(s *stamp.Stamp) { s.Namespace = "kube-system" }},
	"name":              {func(s *stamp.Stamp) { s.Name = "\u202eother\u0085\x1b[2J" }},
	"uid":               {func(s *stamp.Stamp) { s.UID = "uid-nobody" }},
	"generation":        {func(s *stamp.Stamp) { s.Generation = 0 }, func(s *stamp.Stamp) { s.Generation = math.MaxInt64 }},
	"ordinal":           {func(s *stamp.Stamp) { s.Ordinal = 1 }, func(s *stamp.Stamp) { s.Ordinal = 2 }, func(s *stamp.Stamp) { s.Ordinal = math.MaxInt32 }},
	"revision":          {func(s *stamp.Stamp) { s.Revision = "0a1b2c3d4e" }},
	"revisionAlgorithm": {func(s *stamp.Stamp) { s.RevisionAlgorithm = 99 }},
	"vcenter":           {func(s *stamp.Stamp) { s.VCenter = "" }, func(s *stamp.Stamp) { s.VCenter = "another" }},
	"marked":            {func(s *stamp.Stamp) { s.Marked = true }, func(s *stamp.Stamp) { s.Marked, s.Why = true, plan.MarkReasonScaleIn }, func(s *stamp.Stamp) { s.Marked, s.Why = true, plan.MarkReasonPowerCycle }},
	"why":               {func(s *stamp.Stamp) { s.Why = plan.MarkReasonDuplicate }},
	"created":           {func(s *stamp.Stamp) { s.Created = time.Time{} }, func(s *stamp.Stamp) { s.Created = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC) }},
	"fingerprint":       {func(s *stamp.Stamp) { s.Fingerprint = "0a1b2c3d4e" }},
	"template":          {func(s *stamp.Stamp) { s.Template = "another" }},
	"quarantined": {func(s *stamp.Stamp) { s.Quarantined = s.Created }, func(s *stamp.Stamp) { s.Quarantined, s.Why = s.Created, plan.MarkReasonDuplicate },
		func(s *stamp.Stamp) { s.Quarantined, s.Why = s.Created, plan.MarkReasonScaleIn }},
	"restarted": {func(s *stamp.Stamp) { s.Restarted = s.Created }},
	"shutdown":  {func(s *stamp.Stamp) { s.Shutdown = plan.Moment{At: s.Created, Boot: s.Created} }},
	"adopted": {func(s *stamp.Stamp) {
		s.Former = plan.Former{Entry: "/DC0/vm/tenant-b/own-0", Name: "own-0", Folder: "group-v3"}
	}},
	"markedAt":            {func(s *stamp.Stamp) { s.Marked, s.MarkedAt = true, s.Created }},
	"home":                {func(s *stamp.Stamp) { s.Home = "" }, func(s *stamp.Stamp) { s.Home = "DC0:elsewhere" }},
	"addresses":           {func(s *stamp.Stamp) { s.Addresses = "10.0.0.1" }},
	"prepared":            {func(s *stamp.Stamp) { s.Prepared = plan.Unprepared }},
	"disks":               {func(s *stamp.Stamp) { s.Disks = "2000=6000C29e-0000-0000-0000-000000000000" }},
	"standby":             {func(s *stamp.Stamp) { s.Standby = true }},
	"outOfRule":           {func(s *stamp.Stamp) { s.OutOfRule = true }},
	"presentInstanceUuid": {func(s *stamp.Stamp) { s.Present = "9f6a7c1e-0000-4000-8000-000000000003" }},
	"given": {func(s *stamp.Stamp) {
		s.Given = `[{"name":"data","at":"1000:1","uuid":"6000C29e","sizeGiB":20,"shape":"x"}]`
	}},
	"clonedFor":  {func(s *stamp.Stamp) { s.ClonedFor = "0a1b2c3d4e" }},
	"tagged":     {func(s *stamp.Stamp) { s.Tagged = plan.Tagged{MoRef: "vm-1", Asked: "c0ffee12", At: s.Created} }},
	"allocation": {func(s *stamp.Stamp) { s.Allocation = `{"cpuLimitMHz":800}` }},
}

// someForgeries are all forgeries of one field, a stamp that is a member's but for its VM, and stamps with several fields of others, drawn by a seed.
func someForgeries(seed uint64, several int) []forgery {
	all := append(slices.Clone(forgeries), forgery{"nothing but its VM", []func(*stamp.Stamp){func(*stamp.Stamp) {}}})
	keys := slices.Sorted(maps.Keys(changedFields))
	for _, key := range keys {
		for i, write := range changedFields[key] {
			all = append(all, forgery{fmt.Sprintf("%s %d", key, i), []func(*stamp.Stamp){write}})
		}
	}
	random := rand.New(rand.NewPCG(seed, 0))
	for range several {
		what, write := severalFields(random)
		all = append(all, forgery{what, []func(*stamp.Stamp){write}})
	}
	return all
}

// severalFields returns a change of two to five fields of a stamp.
func severalFields(random *rand.Rand) (what string, write func(*stamp.Stamp)) {
	keys := slices.Sorted(maps.Keys(changedFields))
	random.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	keys = keys[:2+random.IntN(4)]
	var writes []func(*stamp.Stamp)
	for _, key := range keys {
		writes = append(writes, pick(random, changedFields[key]))
	}
	return strings.Join(keys, " and "), func(s *stamp.Stamp) {
		for _, write := range writes {
			write(s)
		}
	}
}

// A field that a stamp gets must be in changedFields.
func TestAForgeryChangesEachFieldOfAStamp(t *testing.T) {
	for key, writes := range changedFields {
		was := map[string]any{}
		now := map[string]any{}
		s := stamp.Stamp{UID: "uid-web", InstanceUUID: "u", VCenter: "v", Created: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), Home: "DC0:", Generation: 1, Namespace: "default", Name: "web"}
		must := func(err error) {
			if err != nil {
				t.Fatal(err)
			}
		}
		must(json.Unmarshal([]byte(s.Encode()), &was))
		writes[len(writes)-1](&s)
		must(json.Unmarshal([]byte(s.Encode()), &now))
		if fmt.Sprint(was[key]) == fmt.Sprint(now[key]) {
			t.Errorf("the forgery of %s changes another field: %v", key, now)
		}
	}
	fields := slices.DeleteFunc(reflect.VisibleFields(reflect.TypeFor[stamp.Stamp]()), func(f reflect.StructField) bool { return !f.IsExported() })
	if n, want := len(changedFields), len(fields)-1; n != want { // without InstanceUUID
		t.Errorf("%d fields are forged; want %d", n, want)
	}
}

// seen is what users and other software see of a group, and of all groups.
type seen struct {
	phase                       v1alpha1.Phase
	members, endpoints, targets []string
	groups                      string
}

func (s *serverReplica) seen(t *testing.T, g *metacontroller.Group) seen {
	t.Helper()
	x := seen{phase: g.Status.Phase, endpoints: endpoints(t, g)}
	var targets []struct {
		Targets []string
		Labels  map[string]string
	}
	if text := s.targets(); json.Unmarshal([]byte(text), &targets) != nil { // the server has not read vCenter yet
		x.targets = []string{text}
	}
	for _, one := range targets {
		x.targets = append(x.targets, fmt.Sprint(one.Labels["__meta_vmgroup_group_uid"], " ", one.Labels["__meta_vmgroup_member"], " ", one.Targets))
	}
	slices.Sort(x.targets)
	for _, m := range g.Status.Members {
		x.members = append(x.members, fmt.Sprint(m.Name, " ", m.MoRef, " ", m.IPs, " ready: ", m.Ready))
	}
	for _, q := range g.Status.Quarantined {
		x.members = append(x.members, q.Name+" "+q.MoRef+" in quarantine")
	}
	for _, m := range g.Status.Standby {
		x.members = append(x.members, m.Name+" "+m.MoRef+" standby")
	}
	var groups []struct {
		Namespace, Name string
		UID             types.UID
	}
	res, err := (&http.Client{Transport: &s.rig.hooks}).Get(s.url + "/groups")
	s.rig.must(err)
	defer res.Body.Close() //nolint:errcheck // it was only read
	text, err := io.ReadAll(res.Body)
	s.rig.must(err)
	s.rig.must(json.Unmarshal(text, &groups))
	x.groups = fmt.Sprintf("%q", groups)
	return x
}

// forgedRig starts a vCenter and a group of two, which serves.
func forgedRig(t *testing.T) (r *rig, s *serverReplica, g *metacontroller.Group) {
	t.Helper()
	r = newRig(t, vcsim.Config{Hosts: 3, Templates: []string{"vm-operator-template", otherTemplate}, Guest: vcsim.Guest{Tools: true}})
	s = r.serve()
	g = s.group("web", 2)
	g.Spec.Service, g.Spec.Readiness.Check = &v1alpha1.Service{}, v1alpha1.ReadyGuestIP
	g.Spec.ScaleIn.Order = v1alpha1.ScaleInOldest
	up(t, g)
	time.Sleep(10 * time.Minute)
	up(t, g)
	eventually(t, patience, "Prometheus sees the members", func() bool { return len(s.seen(t, g).targets) == 2 })
	return r, s, g
}

// unharmed checks that a group stays as it was seen, then that it can be scaled and updated, and that its deletion ends and leaves nothing but the
// strangers' VMs, as they are. A server that is started beside them sees the same.
func (r *rig) unharmed(t *testing.T, s *serverReplica, g *metacontroller.Group, was seen, forged []*untouched) {
	t.Helper()
	stays := func(d time.Duration) {
		t.Helper()
		for began := time.Now(); time.Since(began) < d; time.Sleep(10 * time.Second) {
			mustSync(t, g)
			if is := s.seen(t, g); fmt.Sprint(is) != fmt.Sprint(was) {
				t.Fatalf("after %s, seen is\n%+v\nnot\n%+v\n%s", time.Since(began), is, was, g.Status.LastMessage)
			}
		}
	}
	stays(3 * time.Minute)
	vms := refs(r.members())
	s.stop()
	s = r.serve()
	g.URL = s.url
	mustSync(t, g)
	until(t, g, "the new server has read vCenter", metacontroller.Running)
	eventually(t, patience, "Prometheus sees the members", func() bool { return slices.Equal(s.seen(t, g).targets, was.targets) })
	stays(3 * time.Minute)
	if is := refs(r.members()); !maps.Equal(is, vms) {
		t.Errorf("the VMs with stamps are %v; want %v", is, vms)
	}
	ready := func(n int32, template string) {
		t.Helper()
		until(t, g, "the group is as its spec says", func(a metacontroller.Answer) bool {
			return metacontroller.Running(a) && a.Status.ReadyReplicas == n && a.Status.UpdatedReplicas == n && len(a.Status.Members) == int(n)
		})
	}
	g.Scale(3)
	ready(3, "")
	g.Edit(func(s *v1alpha1.VmGroupSpec) { s.Template, s.Replicas = otherTemplate, new(int32(1)) })
	ready(1, otherTemplate)
	remove(t, g)
	for _, vm := range r.VMs() {
		if isStamped(vm) && !slices.ContainsFunc(forged, func(u *untouched) bool { return u.ref == vm.Ref }) {
			t.Errorf("%s (%s) is left of the deleted group", vm.Path, vm.Ref.Value)
		}
	}
	if _, err := r.Find(web); err == nil {
		t.Error("the group's folder is left")
	}
	for _, u := range forged {
		u.check()
	}
}

// A stranger's stamp must do nothing to a group, its endpoints, its deletion, or the lists: whatever he changes of a member's stamp, whether his VM is
// on or off, and whether it has the instanceUuid of the member, too.
func TestAForgedStampDoesNothing(t *testing.T) {
	t.Parallel()
	for i, f := range someForgeries(1, 12) {
		for j, copied := range []bool{false, true} {
			if leftOut(2*i + j) {
				continue
			}
			if i >= len(forgeries) && i%2 != j { // of the others, every second one has a copied identity, and half of each are on
				continue
			}
			on := i < len(forgeries) || i%4 < 2
			t.Run(fmt.Sprintf("%s, copied %t, on %t", f.what, copied, on), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					r, s, g := forgedRig(t)
					was := s.seen(t, g)
					r.unharmed(t, s, g, was, r.forgeAll(f, strangersFolder, webFolder+"web-0", copied, on))
				})
			})
		}
	}
}

// forgeAll makes the VMs of a forgery, from the stamp of a member.
func (r *rig) forgeAll(f forgery, folder, member string, copied, on bool) (forged []*untouched) {
	r.t.Helper()
	s, err := stamp.Decode(r.details(member).ExtraConfig[stamp.Key])
	r.must(err)
	for n, write := range f.write {
		his := s
		write(&his)
		forged = append(forged, r.forge(folder, fmt.Sprintf("own-%d", n), his, copied, on))
	}
	return forged
}

// Who has rights in the folder of one group can harm no other.
func TestAForgedStampInAnotherGroupsFolderDoesNothing(t *testing.T) {
	t.Parallel()
	for i, f := range forgeries {
		if leftOut(i) {
			continue
		}
		t.Run(f.what, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r, s, g := forgedRig(t)
				mine := s.group("mine", 1)
				up(t, mine)
				eventually(t, patience, "Prometheus sees all members", func() bool { return len(s.seen(t, g).targets) == 3 })
				was := s.seen(t, g)
				forged := r.forgeAll(f, "/DC0/vm/vm-operator/default/mine", webFolder+"web-0", false, true)
				for range 10 {
					mustSync(t, mine)
					mustSync(t, g)
					if is := s.seen(t, g); fmt.Sprint(is) != fmt.Sprint(was) {
						t.Fatalf("seen is\n%+v\nnot\n%+v\n%s", is, was, g.Status.LastMessage)
					}
					time.Sleep(10 * time.Second)
				}
				remove(t, g)
				for _, u := range forged {
					u.check()
				}
			})
		})
	}
}

// A stranger who has read a member's stamp gives his VM the member's instanceUuid and extraConfig, and the member's host leaves the inventory: the member
// is missing, his VM isn't it, and the member is back with its host.
func TestAForgedStampIsNoMissingMemberBack(t *testing.T) {
	t.Parallel()
	rows := append(slices.Clone(forgeries), forgery{"nothing but its VM", []func(*stamp.Stamp){func(*stamp.Stamp) {}}},
		forgery{"no stamp, but the instanceUuid", []func(*stamp.Stamp){func(s *stamp.Stamp) { s.UID = "" }}})
	for i, f := range rows {
		for j, afterwards := range []bool{false, true} {
			if leftOut(2*i + j) {
				continue
			}
			t.Run(fmt.Sprintf("%s, written after the member left %t", f.what, afterwards), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					r, _, g := forgedRig(t)
					s, err := stamp.Decode(r.details(webFolder + "web-0").ExtraConfig[stamp.Key])
					r.must(err)
					var forged []*untouched
					forge := func() {
						for n, write := range f.write {
							his := s
							write(&his)
							forged = append(forged, r.forge(strangersFolder, fmt.Sprintf("own-%d", n), his, true, true))
						}
					}
					if !afterwards {
						forge()
						syncFor(t, g, time.Minute, "as before", metacontroller.Running)
					}
					host := r.details(webFolder + "web-0").Host
					for _, u := range forged {
						u.leaves(host)
					}
					r.must(r.RemoveHost(host))
					n := tally(r.OutsideInventory(), isOfGroup(g))
					hasVanished(t, g, n, "was removed from the inventory")
					if afterwards {
						forge()
					}
					syncFor(t, g, 10*time.Minute, "without the missing members", func(a metacontroller.Answer) bool {
						return tallyVanished(a.Status) == n && !slices.ContainsFunc(forged, func(u *untouched) bool { return lists(&a.Status, u) })
					})
					r.must(r.AddHost(path.Base(host)))
					up(t, g)
					for _, u := range forged {
						if u.check(); lists(&g.Status, u) {
							t.Errorf("%s is a member: %+v", u.ref.Value, g.Status.Members)
						}
					}
					if n := r.Calls()["CloneVM_Task"]; n != 2 {
						t.Errorf("%d clones; want 2", n)
					}
					remove(t, g)
					for _, u := range forged {
						u.check()
					}
				})
			})
		}
	}
}

// A stranger's VM with a forged stamp leaves the inventory with its host, or is unregistered, and comes back as another object: it was never the group's, so
// it isn't missing meanwhile, and it isn't a member that returned. The group's own VMs on that host are.
func TestAForgedStampThatComesBackIsNoReturnedMember(t *testing.T) {
	t.Parallel()
	rows := append(slices.Clone(forgeries), forgery{"nothing but its VM", []func(*stamp.Stamp){func(*stamp.Stamp) {}}})
	for i, f := range rows {
		for j, registered := range []bool{false, true} {
			if leftOut(2*i + j) {
				continue
			}
			t.Run(fmt.Sprintf("%s, registered again %t", f.what, registered), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					r, _, g := forgedRig(t)
					s, err := stamp.Decode(r.details(webFolder + "web-0").ExtraConfig[stamp.Key])
					r.must(err)
					his := s
					f.write[0](&his)
					u := r.forge(strangersFolder, "own", his, false, true)
					syncFor(t, g, time.Minute, "as before", metacontroller.Running)
					if registered {
						r.must(r.PowerOff(u.was.Path))
						r.must(r.Unregister(u.was.Path))
						syncFor(t, g, time.Minute, "as before", metacontroller.Running)
						r.must(r.Register(u.was.InstanceUUID))
					} else {
						host := r.details(u.was.Path).Host
						r.must(r.RemoveHost(host))
						n := tally(r.OutsideInventory(), func(vm vcsim.VM) bool { return vm.InstanceUUID != u.was.InstanceUUID && isOfGroup(g)(vm) })
						if n > 0 {
							hasVanished(t, g, n, "was removed from the inventory")
						}
						syncFor(t, g, 10*time.Minute, "without the members of the host alone", func(a metacontroller.Answer) bool {
							return len(a.Status.Members) == 2 && tallyVanished(a.Status) == n
						})
						r.must(r.AddHost(path.Base(host)))
					}
					at := slices.IndexFunc(r.VMs(), func(vm vcsim.VM) bool { return vm.InstanceUUID == u.was.InstanceUUID })
					if at < 0 {
						t.Fatal("the stranger's VM isn't back")
					}
					back := r.untouched(r.VMs()[at].Ref)
					up(t, g)
					syncFor(t, g, 10*time.Minute, "as before", func(a metacontroller.Answer) bool {
						return metacontroller.Running(a) && len(a.Status.Members) == 2 && !lists(&a.Status, back)
					})
					back.check()
					if n := r.Calls()["CloneVM_Task"]; n != 2 {
						t.Errorf("%d clones; want 2", n)
					}
					remove(t, g)
					back.check()
				})
			})
		}
	}
}
