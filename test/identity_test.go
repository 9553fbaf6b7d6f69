package test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/metacontroller"
	"codeconnect.vmworld.com/vmgroup/test/must"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
	"codeconnect.vmworld.com/vmgroup/vsphere/vctest"
)

// guestInfo decodes a guestinfo entry as cloud-init's VMware datasource does.
func guestInfo(t testing.TB, d vcsim.Details, key string) string {
	t.Helper()
	return vctest.Decoded(t, d.ExtraConfig, "guestinfo."+key)
}

// metadata is what a member's guest gets from guestinfo.
func metadata(t testing.TB, d vcsim.Details) map[string]any {
	t.Helper()
	all := map[string]any{}
	must.Succeed(t, yaml.Unmarshal([]byte(guestInfo(t, d, "metadata")), &all))
	return all
}

func TestUserDataReachesEveryMemberAndANewTextReplacesThem(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const first, second = "#cloud-config\npassword: planted-secret-1\n", "#cloud-config\npassword: planted-secret-2\n"
		r := newChangeRig(t, vcsim.Guest{Tools: true})
		s := r.serve()
		g := s.group("web", 2)
		g.Spec.UserData = &v1alpha1.UserData{SecretKeyRef: &v1alpha1.KeyRef{Name: "boot"}}
		if text := blocked(t, g, "SecretNotFound"); !strings.Contains(text, "default/boot") {
			t.Errorf("the status says %q; want %q in the text", text, "default/boot")
		}
		g.Related = []metacontroller.Related{{Kind: "Secret", Name: "boot", Data: map[string]string{"other": "x"}}}
		if text := blocked(t, g, "UserDataKeyNotFound"); !strings.Contains(text, "user-data") || !strings.Contains(text, "other") {
			t.Errorf("the status says %q; want %q and %q in the text", text, "user-data", "other")
		}
		if vms := r.members(); len(vms) > 0 {
			t.Errorf("the group has %d members; want none", len(vms))
		}
		g.Related[0].Data = map[string]string{"user-data": first}
		up(t, g)
		was := refs(r.members())
		for i := range 2 {
			name := fmt.Sprintf("web-%d", i)
			d := r.details(webFolder + name)
			if text := guestInfo(t, d, "userdata"); text != first {
				t.Errorf("%s got the user data %q; want %q", name, text, first)
			}
			if m := metadata(t, d); m["local-hostname"] != name || m["instance-id"] == "" || m["group"] != "web" || m["namespace"] != "default" || fmt.Sprint(m["ordinal"]) != fmt.Sprint(i) {
				t.Errorf("%s gets %v", name, m)
			}
		}
		g.Related[0].Data["user-data"] = second
		until(t, g, "the members are replaced", func(a metacontroller.Answer) bool {
			if !metacontroller.Running(a) {
				return false
			}
			for name, ref := range refs(r.members()) {
				if was[name] == ref {
					return false
				}
			}
			return true
		})
		for _, vm := range r.members() {
			if text := guestInfo(t, r.details(webFolder+vm.Name), "userdata"); text != second {
				t.Errorf("%s got the user data %q; want %q", vm.Name, text, second)
			}
		}
		body, err := g.Body(false)
		r.must(err)
		for _, path := range []string{"/sync", "/plan", "/groups", "/groups/default/web", "/sd"} {
			method := http.MethodPost
			if strings.HasPrefix(path, "/groups") || path == "/sd" {
				method = http.MethodGet
			}
			request, err := http.NewRequestWithContext(within(t), method, s.url+path, bytes.NewReader(body))
			r.must(err)
			request.Header.Set("Content-Type", "application/json")
			response, err := r.client().Do(request)
			r.must(err)
			text, err := io.ReadAll(response.Body)
			r.must(err)
			_ = response.Body.Close()
			if response.StatusCode != http.StatusOK || bytes.Contains(text, []byte("planted")) || bytes.Contains(text, []byte(base64.StdEncoding.EncodeToString([]byte(second)))) {
				t.Errorf("%s: %s %s", path, response.Status, text)
			}
		}
		remove(t, g)
	})
}

func TestAnIgnitionConfigReachesTheMembersWhereIgnitionLooks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const config = `{"ignition":{"version":"3.4.0"},"passwd":{"users":[{"name":"core","passwordHash":"planted"}]}}`
		r := newChangeRig(t, vcsim.Guest{Tools: true})
		g := r.serve().group("web", 1)
		g.Spec.UserData = &v1alpha1.UserData{ConfigMapKeyRef: &v1alpha1.KeyRef{Name: "boot", Key: "ignition"}}
		g.Related = []metacontroller.Related{{Kind: "ConfigMap", Name: "boot", Data: map[string]string{"ignition": config}}}
		if a := up(t, g); meta.FindStatusCondition(a.Status.Conditions, v1alpha1.ConditionUserDataUnrecognized) != nil {
			t.Errorf("conditions: %+v", a.Status.Conditions)
		}
		was := r.members()[0]
		d := r.details(webFolder + "web-0")
		if text := guestInfo(t, d, "ignition.config.data"); text != config {
			t.Errorf("web-0 got the user data %q; want %q", text, config)
		}
		if m := metadata(t, d); d.ExtraConfig["guestinfo.userdata"] != "" || m["local-hostname"] != "web-0" {
			t.Errorf("for cloud-init it got %q, with the metadata %v", d.ExtraConfig["guestinfo.userdata"], m)
		}
		g.Related[0].Data["ignition"] = "#cloud-config\n"
		until(t, g, "the member is replaced", func(a metacontroller.Answer) bool {
			return metacontroller.Running(a) && len(r.members()) == 1 && r.members()[0].Ref != was.Ref
		})
		d = r.details(webFolder + r.members()[0].Name)
		if text := guestInfo(t, d, "userdata"); text != "#cloud-config\n" || d.ExtraConfig["guestinfo.ignition.config.data"] != "" {
			t.Errorf("web-0's successor got %q for cloud-init, and %q for Ignition; want %q and %q", text, d.ExtraConfig["guestinfo.ignition.config.data"], "#cloud-config\n", "")
		}
	})
}

func TestAMemberThatIgnitionSetsUpDoesNotTakeAStaticAddress(t *testing.T) {
	inChangeRig(t, vcsim.Guest{Tools: true}, func(t *testing.T, r *rig) {
		g := r.serve().group("web", 1)
		g.Spec.UserData = &v1alpha1.UserData{ConfigMapKeyRef: &v1alpha1.KeyRef{Name: "boot"}}
		g.Spec.Networks = []v1alpha1.Network{{Network: "VM Network", IPv4: &v1alpha1.Addresses{Ranges: []string{"10.0.0.10"}, PrefixLength: 24}}}
		g.Spec.Readiness.TimeoutSeconds = new(int32(30))
		g.Related = []metacontroller.Related{{Kind: "ConfigMap", Name: "boot", Data: map[string]string{"user-data": `{"ignition":{"version":"3.4.0"}}`}}}
		if text := blocked(t, g, "AddressNotTaken"); !strings.Contains(text, "10.0.0.10") {
			t.Errorf("the status says %q; want %q in the text", text, "10.0.0.10")
		}
	})
}

func TestUserDataThatNoGuestReadsIsAWarning(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const butane = "variant: flatcar\nversion: 1.0.0\npasswd: {users: [{name: planted}]}\n"
		r := newChangeRig(t, vcsim.Guest{Tools: true})
		g := r.serve().group("web", 1)
		g.Spec.UserData = &v1alpha1.UserData{SecretKeyRef: &v1alpha1.KeyRef{Name: "boot"}}
		g.Related = []metacontroller.Related{{Kind: "Secret", Name: "boot", Data: map[string]string{"user-data": butane}}}
		a := up(t, g)
		c := meta.FindStatusCondition(a.Status.Conditions, v1alpha1.ConditionUserDataUnrecognized)
		if c == nil || c.Status != metav1.ConditionTrue || !strings.Contains(c.Message, "Secret default/boot") || !strings.Contains(a.Status.LastMessage, c.Message) ||
			strings.Contains(a.Status.LastMessage, "planted") {
			t.Errorf("%s %+v", a.Status.LastMessage, c)
		}
		if text := guestInfo(t, r.details(webFolder+"web-0"), "userdata"); text != butane {
			t.Errorf("web-0 got the user data %q; want %q", text, butane)
		}
		if event := eventsOf(t, g)["UserDataUnrecognized"]; !strings.Contains(event, "butane") {
			t.Errorf("Events: %v", eventsOf(t, g))
		}
		g.Related[0].Data["user-data"] = "#!/bin/sh\n"
		until(t, g, "the warning ends", func(a metacontroller.Answer) bool {
			return metacontroller.Running(a) && meta.FindStatusCondition(a.Status.Conditions, v1alpha1.ConditionUserDataUnrecognized) == nil
		})
	})
}

func TestStaticAddressesBelongToOrdinals(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, vcsim.Config{Portgroups: 1, Guest: vcsim.Guest{Tools: true}}) // a guest that configures the addresses that it gets reports them
		g := r.serve().group("web", 2)
		g.Spec.Networks = []v1alpha1.Network{
			{Network: "DC0_DVPG0", IPv4: &v1alpha1.Addresses{Ranges: []string{"10.0.0.10-10.0.0.19"}, PrefixLength: 24, Gateway: "10.0.0.1"}, Nameservers: []string{"10.0.0.2"}},
			{Network: "/DC0/network/VM Network", IPv6: &v1alpha1.Addresses{Ranges: []string{"fd00::10-fd00::19"}, PrefixLength: 64}},
		}
		up(t, g)
		check := func(i int) {
			t.Helper()
			d := r.details(fmt.Sprintf("%sweb-%d", webFolder, i))
			if len(d.NICs) != 2 || d.NICs[0].Network != "DC0_DVPG0" || d.NICs[1].Network != "VM Network" {
				t.Fatalf("web-%d has %+v", i, d.NICs)
			}
			text, err := json.Marshal(metadata(t, d)["network"])
			r.must(err)
			for _, want := range []string{d.NICs[0].MAC, d.NICs[1].MAC, fmt.Sprintf("10.0.0.%d/24", 10+i), fmt.Sprintf("fd00::1%d/64", i), "10.0.0.1", "10.0.0.2"} {
				if !strings.Contains(strings.ToLower(string(text)), strings.ToLower(want)) {
					t.Errorf("web-%d doesn't get %s: %s", i, want, text)
				}
			}
		}
		check(0)
		check(1)
		was := refs(r.members())["web-1"]
		r.must(r.Destroy(webFolder + "web-1"))
		until(t, g, "web-1 is back", func(a metacontroller.Answer) bool {
			is := refs(r.members())["web-1"]
			return metacontroller.Running(a) && is != "" && is != was
		})
		check(1)
		was = fmt.Sprint(refs(r.members()))
		g.Edit(func(s *v1alpha1.VmGroupSpec) { s.Networks[0].IPv4.Ranges = []string{"10.0.0.10-10.0.0.99"} })
		up(t, g)
		if is := fmt.Sprint(refs(r.members())); is != was {
			t.Errorf("more addresses caused replacements: %s, %s", was, is)
		}
		g.Edit(func(s *v1alpha1.VmGroupSpec) { s.Networks[0].Network = "nowhere" })
		if text := blocked(t, g, "NetworkNotFound"); !strings.Contains(text, "DC0_DVPG0") {
			t.Errorf("the status says %q; want %q in the text", text, "DC0_DVPG0")
		}
		remove(t, g)
	})
}

func TestAnAdapterHasSeveralAddressesAndMoreOfThemReplaceTheMembers(t *testing.T) {
	inRig(t, vcsim.Config{Guest: vcsim.Guest{Tools: true}}, func(t *testing.T, r *rig) {
		g := r.serve().group("web", 2)
		g.Spec.Readiness.Check = v1alpha1.ReadyGuestIP
		g.Spec.Networks = []v1alpha1.Network{{Network: "VM Network", IPv4: &v1alpha1.Addresses{Ranges: []string{"10.0.0.10-10.0.0.19"}, PrefixLength: 24}}}
		up(t, g)
		was := refs(r.members())
		g.Edit(func(s *v1alpha1.VmGroupSpec) { s.Networks[0].IPv4.AdditionalRanges = []string{"10.0.0.110-10.0.0.111"} })
		if text := blocked(t, g, "AddressesExhausted"); !strings.Contains(text, "for 2 members") {
			t.Errorf("the status says %q; want %q in the text", text, "for 2 members")
		}
		r.sameVMs(was)
		g.Edit(func(s *v1alpha1.VmGroupSpec) { s.Networks[0].IPv4.AdditionalRanges[0] = "10.0.0.110-10.0.0.119" })
		a := until(t, g, "the members are replaced", func(a metacontroller.Answer) bool {
			is := refs(r.members())
			return metacontroller.Running(a) && len(is) == 2 && !slices.ContainsFunc(slices.Collect(maps.Values(is)), func(ref string) bool {
				return slices.Contains(slices.Collect(maps.Values(was)), ref)
			})
		})
		for _, m := range a.Status.Members {
			n := int(m.Name[len(m.Name)-1] - '0')
			if !slices.Equal(m.IPs, []string{fmt.Sprintf("10.0.0.%d", 10+n), fmt.Sprintf("10.0.0.%d", 110+n)}) {
				t.Errorf("%s has %v; want %v", m.Name, m.IPs, []string{fmt.Sprintf("10.0.0.%d", 10+n), fmt.Sprintf("10.0.0.%d", 110+n)})
			}
		}
		was = refs(r.members())
		g.Edit(func(s *v1alpha1.VmGroupSpec) { s.Networks[0].IPv4.AdditionalRanges[0] = "10.0.0.110-10.0.0.199" })
		up(t, g)
		r.sameVMs(was)
		remove(t, g)
	})
}

func TestAnAdapterWithoutAddressGetsNoneAndItsMemberHasTheOthers(t *testing.T) {
	inRig(t, vcsim.Config{Portgroups: 1, Guest: vcsim.Guest{Tools: true}}, func(t *testing.T, r *rig) {
		r.must(r.AddCustomizationSpec("linux", false))
		g := r.serve().group("web", 1)
		g.Spec.Readiness.Check = v1alpha1.ReadyGuestIP
		g.Spec.Networks = []v1alpha1.Network{
			{Network: "DC0_DVPG0", DHCP: new(false)},
			{Network: "VM Network", IPv4: &v1alpha1.Addresses{Ranges: []string{"10.0.0.10-10.0.0.19"}, PrefixLength: 24}},
		}
		if ips := up(t, g).Status.Members[0].IPs; !slices.Equal(ips, []string{"10.0.0.10"}) {
			t.Errorf("web-0 has the addresses %v; want %v", ips, []string{"10.0.0.10"})
		}
		was := refs(r.members())["web-0"]
		g.Edit(func(s *v1alpha1.VmGroupSpec) { s.CustomizationSpec = "linux" })
		if text := blocked(t, g, "InvalidSpec"); !strings.Contains(text, "spec.customizationSpec") {
			t.Errorf("the status says %q; want %q in the text", text, "spec.customizationSpec")
		}
		g.Edit(func(s *v1alpha1.VmGroupSpec) {
			s.CustomizationSpec, s.Readiness.Check, s.Networks = "", v1alpha1.ReadyToolsRunning, s.Networks[:1]
		})
		a := until(t, g, "the member is replaced by one without address", func(a metacontroller.Answer) bool {
			return metacontroller.Running(a) && len(r.members()) == 1 && refs(r.members())["web-0"] != was
		})
		if ips := a.Status.Members[0].IPs; len(ips) > 0 {
			t.Errorf("web-0 has the addresses %v; want none", ips)
		}
		remove(t, g)
	})
}

// cloud-init looks for an OVF environment before it looks at guestinfo.
func TestAMemberOfAnOVATemplateHasItsStaticAddressAndName(t *testing.T) {
	inRig(t, vcsim.Config{Templates: []string{"vm-operator-template", ova}, Guest: vcsim.Guest{Tools: true}}, func(t *testing.T, r *rig) {
		r.must(r.SetVAppProperties(ova))
		g := r.serve().group("web", 1)
		g.Spec.Template = ova
		g.Spec.Readiness.Check = v1alpha1.ReadyGuestIP
		g.Spec.Networks = []v1alpha1.Network{{Network: "VM Network", IPv4: &v1alpha1.Addresses{Ranges: []string{"10.0.0.10-10.0.0.19"}, PrefixLength: 24}}}
		a := up(t, g)
		if ips := a.Status.Members[0].IPs; !slices.Equal(ips, []string{"10.0.0.10"}) {
			t.Errorf("web-0 has the addresses %v; want %v", ips, []string{"10.0.0.10"})
		}
		if d := r.details(webFolder + "web-0"); d.HostName != "web-0" || d.Config.VAppConfig != nil {
			t.Errorf("hostname %q; vApp properties: %t", d.HostName, d.Config.VAppConfig != nil)
		}
		remove(t, g)
	})
}

func TestTagsAndAttributesAreSetBeforeTheFirstPowerOnAndFollowTheSpec(t *testing.T) {
	inRig(t, vcsim.Config{}, func(t *testing.T, r *rig) {
		_, err := r.AddTag("owner", "a-person")
		r.must(err)
		g := r.serve().group("web", 2)
		g.Spec.Tags = []v1alpha1.Tag{{Category: "owner", Name: "shop"}}
		g.Spec.CustomAttributes = map[string]string{"cost centre": "42"}
		if text := blocked(t, g, "TagNotFound"); !strings.Contains(text, "shop") || !strings.Contains(text, "create") {
			t.Errorf("the status says %q; want %q and %q in the text", text, "shop", "create")
		}
		if n := len(r.members()); n > 0 {
			t.Errorf("%d members were cloned without the tag; want none", n)
		}
		g.Edit(func(s *v1alpha1.VmGroupSpec) { s.Tags[0].Create = true })
		up(t, g)
		was := refs(r.members())
		check := func(tags []string, attribute string) {
			t.Helper()
			for i := range 2 {
				path := fmt.Sprintf("%sweb-%d", webFolder, i)
				equal(t, value(r.TagsOf(path)), tags)
				if got := value(r.AttributesOf(path))["cost centre"]; got != attribute {
					t.Errorf("%s has the attribute %q; want %q", path, got, attribute)
				}
			}
		}
		check([]string{"owner/shop"}, "42")
		g.Edit(func(s *v1alpha1.VmGroupSpec) {
			s.Tags = []v1alpha1.Tag{{Category: "owner", Name: "a-person"}}
			s.CustomAttributes["cost centre"] = "43"
		})
		up(t, g)
		check([]string{"owner/a-person"}, "43")
		g.Edit(func(s *v1alpha1.VmGroupSpec) { s.Tags, s.CustomAttributes = nil, nil })
		up(t, g)
		check(nil, "")
		r.sameVMs(was)
		remove(t, g)
	})
}

// An admin makes a template of a member with user data, and a group of another namespace without any clones it.
func TestAGroupThatClonesATemplateMadeFromAMemberGetsNoneOfItsData(t *testing.T) {
	inRig(t, vcsim.Config{Guest: vcsim.Guest{Tools: true}}, func(t *testing.T, r *rig) {
		s := r.serve()
		former := s.group("web", 1)
		former.Spec.UserData = &v1alpha1.UserData{SecretKeyRef: &v1alpha1.KeyRef{Name: "boot"}}
		former.Related = []metacontroller.Related{{Kind: "Secret", Name: "boot", Data: map[string]string{"user-data": "#cloud-config\npassword: planted-secret\n"}}}
		up(t, former)
		r.must(r.CloneVM(webFolder+"web-0", "/DC0/vm", "made"))
		r.must(r.ToTemplate("/DC0/vm/made"))
		g := s.groupOf("other", "api", "uid-api", 1)
		g.Spec.Template = "made"
		up(t, g)
		d := r.details("/DC0/vm/vm-operator/other/api/api-0")
		for key := range d.ExtraConfig {
			if strings.Contains(key, "userdata") {
				t.Errorf("api-0 has %s, of the member that its template was made from", key)
			}
		}
		if m := metadata(t, d); m["group"] != "api" || m["namespace"] != "other" {
			t.Errorf("api-0 has the metadata %v; want its own", m)
		}
		remove(t, g)
	})
}
