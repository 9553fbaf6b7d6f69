package test

import (
	"encoding/json"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/vmware/govmomi/vim25/types"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/metacontroller"
	"codeconnect.vmworld.com/vmgroup/test/must"
	"codeconnect.vmworld.com/vmgroup/test/thin"
	"codeconnect.vmworld.com/vmgroup/vsphere/stamp"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// These tests follow the procedures of the documents step by step, and take their patches from the documents.

// patch edits a group as `kubectl patch --type merge` does, with a patch that docs/day-to-day.md has. pairs replace the example values in the patch.
func patch(t *testing.T, g *metacontroller.Group, documented string, pairs ...string) {
	t.Helper()
	docs, err := os.ReadFile("../docs/day-to-day.md")
	must.Succeed(t, err)
	if !strings.Contains(string(docs), documented) {
		t.Fatalf("docs/day-to-day.md does not have %s", documented)
	}
	var spec, change map[string]any
	text, err := json.Marshal(g.Spec)
	for _, err := range []error{err, json.Unmarshal(text, &spec), json.Unmarshal([]byte(strings.NewReplacer(pairs...).Replace(documented)), &change)} {
		must.Succeed(t, err)
	}
	merge(spec, change["spec"].(map[string]any))
	text, _ = json.Marshal(spec)
	var edited v1alpha1.VmGroupSpec
	must.Succeed(t, json.Unmarshal(text, &edited))
	g.Edit(func(s *v1alpha1.VmGroupSpec) { *s = edited })
}

// merge applies a JSON merge patch (RFC 7396).
func merge(into, change map[string]any) {
	for key, value := range change {
		inner, is := value.(map[string]any)
		switch old, was := into[key].(map[string]any); {
		case value == nil:
			delete(into, key)
		case is && was:
			merge(old, inner)
		case is:
			fresh := map[string]any{}
			merge(fresh, inner)
			into[key] = fresh
		default:
			into[key] = value
		}
	}
}

const (
	canaryPatch   = `{"spec":{"update":{"canary":1},"template":"ubuntu-24.04-b"}}`
	rollbackPatch = `{"spec":{"template":"ubuntu-24.04"}}`
	templateB     = "ubuntu-24.04-b"
	templateA     = "ubuntu-24.04"
)

func TestTryAChangeOnOneMember(t *testing.T) {
	t.Parallel()
	for name, next := range map[string]func(t *testing.T, r *rig, g *metacontroller.Group, was map[string]string){
		"and continue, to half of them and then to all": func(t *testing.T, r *rig, g *metacontroller.Group, was map[string]string) {
			patch(t, g, `{"spec":{"update":{"canary":"50%"}}}`)
			held(t, g, "update.canary holds at 2")
			if n := tally(r.members(), isOfOther); n != 2 {
				t.Errorf("%d are updated; want 2", n)
			}
			patch(t, g, `{"spec":{"update":{"canary":null}}}`)
			up(t, g)
			if n := tally(r.members(), isOfOther); n != 4 {
				t.Errorf("%d are updated; want 4", n)
			}
		},
		"and go back": func(t *testing.T, r *rig, g *metacontroller.Group, was map[string]string) {
			patch(t, g, rollbackPatch, templateA, "vm-operator-template")
			if a := up(t, g); condition(a, v1alpha1.ConditionUpdateHeld).Status == "True" || tally(r.members(), isOfOther) > 0 {
				t.Errorf("%d canaries are left: %s", tally(r.members(), isOfOther), a.Status.LastMessage)
			}
			if stay := tally(r.members(), func(vm vcsim.VM) bool { return was[vm.Name] == vm.Ref.Value }); stay != 3 {
				t.Errorf("%d members were never replaced, want 3", stay)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newChangeRig(t, vcsim.Guest{Tools: true})
				g := r.serve().group("web", 4)
				g.Spec.Readiness.Check = v1alpha1.ReadyToolsRunning
				up(t, g)
				was := refs(r.members())
				patch(t, g, canaryPatch, templateB, otherTemplate)
				held(t, g, "update.canary holds at 1")
				if n := tally(r.members(), isOfOther); n != 1 {
					t.Fatalf("%d are updated; want 1", n)
				}
				next(t, r, g, was)
			})
		})
	}
}

func TestGoBackFromACanaryThatIsNeverReady(t *testing.T) {
	inChangeRig(t, vcsim.Guest{Tools: true}, func(t *testing.T, r *rig) {
		r.Behave(func(b *vcsim.Behavior) { b.BreakGuests = isOfOther })
		g := r.serve().group("web", 4)
		g.Spec.Readiness.Check = v1alpha1.ReadyToolsRunning
		up(t, g)
		patch(t, g, canaryPatch, templateB, otherTemplate)
		_, err := g.Until(within(t), func(metacontroller.Answer) bool {
			return tally(r.members(), isOn) == 4 && tally(r.members(), isOfOther) == 1
		})
		r.must(err)
		patch(t, g, rollbackPatch, templateA, "vm-operator-template")
		if up(t, g); tally(r.members(), isOfOther) > 0 {
			t.Error("the canary is left")
		}
	})
}

// held syncs a group until an update is held, and the group is RUNNING.
func held(t *testing.T, g *metacontroller.Group, by string) {
	t.Helper()
	a := up(t, g)
	if c := condition(a, v1alpha1.ConditionUpdateHeld); c.Status != "True" || !strings.Contains(c.Message, by) {
		t.Fatalf("UpdateHeld is %s: %s; want %s and %q in the text", c.Status, c.Message, "True", by)
	}
}

func TestGoOnWithoutStandbyMembers(t *testing.T) {
	inChangeRig(t, vcsim.Guest{}, func(t *testing.T, r *rig) {
		g := r.serve().group("web", 3)
		up(t, g)
		r.FailTask(vcsim.Clone, nil, &types.NoDiskSpace{Datastore: "LocalDS_0"}, 1)
		patch(t, g, `{"spec":{"standby":2}}`)
		_, err := g.Until(within(t), func(a metacontroller.Answer) bool {
			return condition(a, v1alpha1.ConditionCloneBlocked).Status == "True"
		})
		r.must(err)
		g.Edit(func(s *spec) { s.Standby, s.Template = 0, otherTemplate }) // the document says: set standby: 0 to continue without standby members
		if up(t, g); tally(r.members(), isOfOther) != 3 {
			t.Errorf("%d are updated; want 3", tally(r.members(), isOfOther))
		}
	})
}

func TestBringAVMBackFromQuarantine(t *testing.T) {
	t.Parallel()
	const kept = web + "/quarantine/web-1-"
	for name, do := range map[string]func(t *testing.T, r *rig, g *metacontroller.Group, ref string){
		"to look at it": func(t *testing.T, r *rig, g *metacontroller.Group, ref string) {
			time.Sleep(3 * time.Minute)
			r.must(r.PowerOn(kept + ref))
			a, err := g.Until(within(t), func(a metacontroller.Answer) bool {
				return strings.Contains(a.Status.LastMessage, "its quarantine is over")
			})
			r.must(err)
			if vm := r.vm(kept + ref); vm == nil || len(a.Status.Quarantined) != 1 {
				t.Error("the VM in quarantine was removed while it was powered on")
			}
			r.must(r.PowerOff(kept + ref))
			_, err = g.Until(within(t), func(a metacontroller.Answer) bool { return len(a.Status.Quarantined) == 0 })
			r.must(err)
		},
		"permanently": func(t *testing.T, r *rig, g *metacontroller.Group, ref string) {
			r.must(r.CloneVM(kept+ref, "/DC0/vm", "a-copy"))
			r.must(r.SetExtraConfig(kept+ref, stamp.Key, ""))
			r.must(r.Move(kept+ref, "/DC0/vm"))
			remove(t, g)
			if r.vm("/DC0/vm/web-1-"+ref) == nil || r.vm("/DC0/vm/a-copy") == nil {
				t.Error("the VM or its copy was removed with the group")
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newChangeRig(t, vcsim.Guest{})
				g := r.serve().group("web", 2)
				g.Spec.Deletion.QuarantineSeconds = 600
				up(t, g)
				ref := refs(r.members())["web-1"]
				g.Scale(1)
				a, err := g.Until(within(t), func(a metacontroller.Answer) bool { return len(a.Status.Quarantined) == 1 && r.vm(kept+ref) != nil })
				r.must(err)
				if a.Status.Quarantined[0].Name != "web-1-"+ref && a.Status.Quarantined[0].Name != "web-1" {
					t.Errorf("got the quarantined %+v; want web-1, with or without its moRef", a.Status.Quarantined)
				}
				do(t, r, g, ref)
			})
		})
	}
}

func TestAbandonADeletion(t *testing.T) {
	inChangeRig(t, vcsim.Guest{}, func(t *testing.T, r *rig) {
		g := r.serve().group("web", 2)
		up(t, g)
		was := refs(r.members())
		g.Spec.Paused = true
		_, err := g.Finalize(within(t))
		r.must(err)
		g.Annotations = map[string]string{"vm.codeconnect.vmworld.com/abandon": "true"}
		a, err := g.UntilFinalizing(within(t), func(a metacontroller.Answer) bool { return a.Finalized })
		r.must(err)
		if r.sameVMs(was); !strings.Contains(a.Status.LastMessage, "web-0") {
			t.Errorf("got the message %q; want one that names web-0", a.Status.LastMessage)
		}
	})
}

// documented returns the part of a document between two texts.
func documented(t *testing.T, name, from, to string) string {
	t.Helper()
	text, err := os.ReadFile("../docs/" + name)
	must.Succeed(t, err)
	_, after, found := strings.Cut(string(text), from)
	part, _, ends := strings.Cut(after, to)
	if !found || !ends {
		t.Fatalf("docs/%s does not have %q and then %q", name, from, to)
	}
	return part
}

func TestHoldAMemberBeforeItIsTakenDown(t *testing.T) {
	t.Parallel()
	key, value, _ := strings.Cut(documented(t, "day-to-day.md", "kubectl annotate vg db ", "\n"), "=")
	if value != "db-0/vm-42" {
		t.Fatalf("the documents have %s; want %s", value, "db-0/vm-42")
	}
	for name, late := range map[string]bool{"and let it go": false, "and be late": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newChangeRig(t, vcsim.Guest{Tools: true})
				g := r.serve().group("db", 2)
				g.Spec.Deletion.HoldTimeoutSeconds = 3600
				a := up(t, g)
				ref := a.Status.Members[0].MoRef
				g.Annotations = map[string]string{key: "db-0/" + ref} // step 1, while the member serves; the annotation has no effect yet
				if a = up(t, g); !heldUntil(a, ref).IsZero() || !a.Status.Members[0].Ready {
					t.Errorf("the annotation changed a member that serves: %+v", a.Status.Members[0])
				}
				g.Edit(func(s *spec) { s.Replace = []v1alpha1.Replacement{{Name: "db-0", MoRef: ref}} }) // step 2: the server must replace the member
				a, err := g.Until(within(t), func(a metacontroller.Answer) bool { return !heldUntil(a, ref).IsZero() })
				r.must(err)
				until := heldUntil(a, ref)
				for time.Until(until) > time.Minute {
					time.Sleep(time.Minute)
					_, err := g.Sync(within(t))
					r.must(err)
					if vm := r.vm("/DC0/vm/vm-operator/default/db/db-0"); vm == nil || vm.Reference().Value != ref {
						t.Fatalf("db-0 was taken down %s before its hold ended", time.Until(until))
					}
				}
				if !late {
					g.Annotations = nil // step 3: remove the annotation
				}
				up(t, g)
				if is := refs(r.members())["db-0"]; is == ref || late == time.Now().Before(until) {
					t.Errorf("db-0 is %s at %s, held until %s", is, time.Now(), until)
				}
			})
		})
	}
}

func TestRefreshMembersByTheirAge(t *testing.T) {
	thin.NotShort(t)
	t.Parallel()
	var change struct {
		Spec struct{ Update v1alpha1.Update }
	}
	text := documented(t, "day-to-day.md", "### Refresh members by their age\n\n```yaml\n", "```")
	must.Succeed(t, yaml.UnmarshalStrict([]byte(text), &change))
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Date(2000, 1, 7, 12, 0, 0, 0, time.UTC))) // a Friday
		r := newChangeRig(t, vcsim.Guest{Tools: true})
		g := r.serve().group("web", 2)
		g.Spec.Update = change.Spec.Update
		g.Spec.Update.MaxAgeSeconds = seconds(12 * 3600) // instead of the 30 days in the document
		up(t, g)
		was := refs(r.members())
		berlin, err := time.LoadLocation("Europe/Berlin")
		r.must(err)
		opens := time.Date(2000, 1, 8, 22, 0, 0, 0, berlin)
		for time.Until(opens) > time.Minute {
			time.Sleep(min(10*time.Minute, time.Until(opens)-time.Second))
			_, err := g.Sync(within(t))
			r.must(err)
			r.sameVMs(was)
		}
		held(t, g, "the next one opens at 2000-01-08T22:00:00+01:00")
		time.Sleep(time.Until(opens))
		up(t, g)
		if r.allGone(was); time.Since(opens) > time.Hour {
			t.Errorf("the members were replaced at %s", time.Now())
		}
	})
}

func TestTakeTheDisksOfAFormerGroup(t *testing.T) {
	t.Parallel()
	key := documented(t, "fields.md", "unless it has the annotation `", ": <UID")
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, vcsim.Config{})
		s := r.serve()
		former := s.group("web", 2)
		former.Spec.Disks = []v1alpha1.Disk{{Name: "data", SizeGiB: 2, Persistent: true}}
		up(t, former)
		remove(t, former)
		r.disksAre("when the group is gone", "default/web-0/data 2 1 none", "default/web-1/data 2 1 none")

		g := s.groupOf("default", "web", "uid-of-the-next", 2)
		g.Spec.Disks = former.Spec.Disks
		g.Annotations = map[string]string{key: string(former.UID)}
		up(t, g)
		r.disksAre("taken", "default/web-0/data 2 2 web-0", "default/web-1/data 2 2 web-1")

		g.Scale(3) // the former group has no disk for the third member, which doesn't get an empty one instead
		_, err := g.Until(within(t), func(a metacontroller.Answer) bool {
			return strings.Contains(a.Status.LastMessage, "web-2") && slices.ContainsFunc(a.Status.Conditions, func(c metav1.Condition) bool { return c.Reason == "FormerDiskUnavailable" })
		})
		r.must(err)
		r.disksAre("while the third waits", "default/web-0/data 2 2 web-0", "default/web-1/data 2 2 web-1")
		g.Annotations = nil
		up(t, g)
		r.disksAre("without the annotation", "default/web-0/data 2 2 web-0", "default/web-1/data 2 2 web-1", "default/web-2/data 2 1 web-2")
	})
}

// As "Back up and restore members" says: while the group is paused, the server doesn't replace the VM that a restore destroyed. The restored VM, if it has
// the former instanceUuid, is a stray until spec.adopt names it: then it is the member again. With another instanceUuid, it is an unmanaged VM that blocks
// the member's name until an operator moves it.
func TestAMemberThatABackupRestoredInPlaceIsTheMemberAgain(t *testing.T) {
	t.Parallel()
	for _, same := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, vcsim.Config{})
			g := r.serve().group("web", 2)
			up(t, g)
			was := r.members()[0]
			patch(t, g, `{"spec":{"paused":true}}`)
			mustSync(t, g)
			ctx := within(t)
			r.must(r.Destroy(was.Path))
			syncFor(t, g, 10*time.Minute, "nothing is made", func(metacontroller.Answer) bool { return len(r.members()) == 1 })
			config := &types.VirtualMachineConfigSpec{ExtraConfig: []types.BaseOptionValue{&types.OptionValue{Key: stamp.Key, Value: was.ExtraConfig[stamp.Key]}}}
			if same {
				config.InstanceUuid = was.InstanceUUID
			}
			folder, err := r.find.Folder(ctx, path.Dir(was.Path))
			r.must(err)
			pool, err := r.find.DefaultResourcePool(ctx)
			r.must(err)
			ref := pool.Reference()
			r.task(r.vm("vm-operator-template").Clone(ctx, folder, was.Name,
				types.VirtualMachineCloneSpec{Location: types.VirtualMachineRelocateSpec{Pool: &ref}, Config: config}))
			restored := r.vm(was.Path).Reference()
			if same {
				until(t, g, "the status lists the restored VM", func(a metacontroller.Answer) bool {
					return len(a.Status.Strays) == 1 && a.Status.Strays[0].MoRef == restored.Value
				})
				g.Edit(func(s *v1alpha1.VmGroupSpec) { s.Paused, s.Adopt = false, []string{restored.Value} })
			} else {
				g.Edit(func(s *v1alpha1.VmGroupSpec) { s.Paused = false })
				if text := blocked(t, g, "NameConflict"); !strings.Contains(text, was.Name) {
					t.Errorf("the status doesn't name the restored VM: %s", text)
				}
				r.must(r.Move(was.Path, "/DC0/vm"))
			}
			up(t, g)
			if now := r.members()[0]; (now.Ref == restored) != same || now.Path != was.Path {
				t.Errorf("the same instanceUuid: %t; the restored VM is %s, the member %+v", same, restored.Value, now)
			}
		})
	}
}
