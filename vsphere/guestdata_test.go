package vsphere

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	vim "github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/test/must"
	"codeconnect.vmworld.com/vmgroup/vsphere/guest"
	"codeconnect.vmworld.com/vmgroup/vsphere/library"
	"codeconnect.vmworld.com/vmgroup/vsphere/stamp"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
	"codeconnect.vmworld.com/vmgroup/vsphere/vctest"
)

func optionMap(options []vim.BaseOptionValue) map[string]string {
	all := map[string]string{}
	for _, o := range options {
		all[o.GetOptionValue().Key] = o.GetOptionValue().Value.(string)
	}
	return all
}

func TestTheMetadataOfAMember(t *testing.T) {
	off := false
	networks := []v1alpha1.Network{
		{Network: "a", IPv4: &v1alpha1.Addresses{PrefixLength: 24, Gateway: "10.0.0.1"}, IPv6: &v1alpha1.Addresses{PrefixLength: 64, Gateway: "fe80::1"},
			Nameservers: []string{"10.0.0.53", "fd00::53"}, SearchDomains: []string{"shop.example.com"}},
		{Network: "b"},
		{Network: "c", DHCP: &off, IPv6: &v1alpha1.Addresses{PrefixLength: 48}},
		{Network: "d", DHCP: &off},
	}
	addresses := []plan.StaticAddresses{{IPv4: []string{"10.0.0.12", "10.0.0.112"}, IPv6: []string{"fd00::12"}}, {}, {IPv6: []string{"fd01::12"}}, {}}
	const who = `"instance-id": "uuid-1", "local-hostname": "web-2", "hostname": "web-2", "group": "web", "namespace": "shop", "group_uid": "uid-web", "ordinal": 2`
	for name, c := range map[string]struct {
		details *plan.Details
		macs    []string
		want    string
	}{
		"without details": {nil, nil, `{` + who + `, "zone": ""}`},
		"at the clone":    {&plan.Details{Spec: &v1alpha1.VmGroupSpec{Networks: networks}, Zone: "C1", Addresses: addresses}, nil, `{` + who + `, "zone": "C1"}`},
		"with addresses": {&plan.Details{Spec: &v1alpha1.VmGroupSpec{Networks: networks}, Addresses: addresses},
			[]string{"00:50:56:AA:00:01", "00:50:56:aa:00:02", "00:50:56:aa:00:03", "00:50:56:aa:00:04"}, `{` + who + `, "zone": "", "network": {"version": 2, "ethernets": {
				"nic0": {"match": {"macaddress": "00:50:56:aa:00:01"}, "dhcp4": false, "addresses": ["10.0.0.12/24", "10.0.0.112/24", "fd00::12/64"],
					"gateway4": "10.0.0.1", "gateway6": "fe80::1",
					"nameservers": {"addresses": ["10.0.0.53", "fd00::53"], "search": ["shop.example.com"]}},
				"nic1": {"match": {"macaddress": "00:50:56:aa:00:02"}, "dhcp4": true},
				"nic2": {"match": {"macaddress": "00:50:56:aa:00:03"}, "dhcp4": false, "addresses": ["fd01::12/48"]},
				"nic3": {"match": {"macaddress": "00:50:56:aa:00:04"}, "dhcp4": false, "accept-ra": false, "optional": true}}}}`},
		"without static addresses": {&plan.Details{Spec: &v1alpha1.VmGroupSpec{Networks: networks[1:2]}}, []string{"00:50:56:aa:00:02"},
			`{` + who + `, "zone": "", "network": {"version": 2, "ethernets": {"nic0": {"match": {"macaddress": "00:50:56:aa:00:02"}, "dhcp4": true}}}}`},
	} {
		options, err := guest.Metadata(guest.MetadataKey, web, plan.Action{Key: "web-2", Ordinal: 2, Args: c.details}, "uuid-1", c.macs, nil)
		if err != nil {
			t.Errorf("%s: Metadata failed: %v", name, err)
			continue
		}
		got := vctest.Decoded(t, optionMap(options), "guestinfo.metadata")
		if compact(t, got) != compact(t, c.want) {
			t.Errorf("%s: got the metadata %s; want %s", name, got, c.want)
		}
		again, _ := guest.Metadata(guest.MetadataKey, web, plan.Action{Key: "web-2", Ordinal: 2, Args: c.details}, "uuid-1", c.macs, nil)
		if fmt.Sprint(optionMap(options)) != fmt.Sprint(optionMap(again)) {
			t.Errorf("%s: equal facts give other bytes", name)
		}
	}
	_, err := guest.Metadata(guest.MetadataKey, web, plan.Action{Key: "web-2", Args: &plan.Details{Spec: &v1alpha1.VmGroupSpec{Networks: networks}}}, "uuid-1", []string{"00:50:56:aa:00:01"}, nil)
	if err == nil {
		t.Error("Metadata accepted one MAC address for three networks; want an error")
	}
}

func compact(t *testing.T, text string) string {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("the text %s is no JSON: %v", text, err)
	}
	same, err := json.Marshal(v)
	must.Succeed(t, err)
	return string(same)
}

// talkative creates a template that has guest data.
func (w *world) talkative() vim.ManagedObjectReference {
	w.t.Helper()
	ref, err := w.AddVM("/DC0/vm", "talkative")
	w.must(err)
	for _, key := range []string{"guestinfo.metadata", "guestinfo.userdata", "guestinfo.userdata.encoding"} {
		w.must(w.SetExtraConfig("talkative", key, "the-template's"))
	}
	w.must(w.ToTemplate("talkative"))
	return ref
}

func TestAMemberGetsItsOwnMetadataAndUserDataInsteadOfTheTemplates(t *testing.T) {
	inPlace(t, vcsim.Config{}, func(t *testing.T, w *world, p *process) {
		a := p.shaped(0, v1alpha1.VmGroupSpec{})
		changeArgs(&a, func(of *plan.CloneArgs) { of.Template = w.talkative().Value })
		a.Details().UserData = "#cloud-config\npassword: planted\n"
		p.do(a)
		d, err := w.Details("web-0")
		w.must(err)
		if got := vctest.Decoded(t, d.ExtraConfig, "guestinfo.userdata"); got != a.Details().UserData.Reveal() {
			t.Errorf("web-0 has the user data %q; want %q", got, a.Details().UserData.Reveal())
		}
		var m map[string]any
		w.must(json.Unmarshal([]byte(vctest.Decoded(t, d.ExtraConfig, "guestinfo.metadata")), &m))
		stamp, err := stamp.Decode(d.ExtraConfig[stamp.Key])
		w.must(err)
		if m["local-hostname"] != "web-0" || m["instance-id"] != stamp.InstanceUUID || m["network"] != nil {
			t.Errorf("web-0 has the metadata %v; want the host name web-0, the instance ID %s and no network", m, stamp.InstanceUUID)
		}
	})
}

func TestACustomizedMemberKeepsItsDataWhereCloudInitDoesNotLook(t *testing.T) {
	inPlace(t, vcsim.Config{}, func(t *testing.T, w *world, p *process) {
		w.must(w.AddCustomizationSpec("linux", false))
		a := p.shaped(0, v1alpha1.VmGroupSpec{CustomizationSpec: "linux"})
		changeArgs(&a, func(of *plan.CloneArgs) { of.Template = w.talkative().Value })
		p.do(a)
		d, err := w.Details("web-0")
		w.must(err)
		if text := d.ExtraConfig["guestinfo.metadata"]; text != "" {
			t.Errorf("cloud-init would find %q; want none", text)
		}
		if got := vctest.Decoded(t, d.ExtraConfig, guest.OwnMetadataKey); !vctest.Mentions(got, `"web-0"`) {
			t.Errorf("web-0's own metadata are %s; want them to name web-0", got)
		}
	})
}

// A template that was made from a member has that member's user data, which cloud-init would run in each clone, because the instance-id is new.
func TestACloneOfATemplateMadeFromAMemberHasNothingOfThatMember(t *testing.T) {
	for name, c := range map[string]struct {
		strip func(w *world) // what a person removed from the template
		spec  v1alpha1.VmGroupSpec
		own   plan.Sensitive
		keeps bool // the template's user data
	}{
		"with its stamp":                  {},
		"without its stamp":               {strip: func(w *world) { w.must(w.SetExtraConfig("former", stamp.Key, "")) }},
		"into a group with Ignition":      {own: `{"ignition":{"version":"3.4.0"}}`},
		"into a group with user data":     {own: "#cloud-config\nown: true\n"},
		"into a group with customization": {spec: v1alpha1.VmGroupSpec{CustomizationSpec: "linux"}},
		"by its stamp, without metadata":  {strip: func(w *world) { w.must(w.SetExtraConfig("former", guest.MetadataKey, "")) }},
		"without anything of a guest else": {strip: func(w *world) {
			w.must(w.SetExtraConfig("former", stamp.Key, ""))
			w.must(w.SetExtraConfig("former", guest.MetadataKey, ""))
		}, keeps: true},
	} {
		t.Run(name, func(t *testing.T) {
			inPlace(t, vcsim.Config{}, func(t *testing.T, w *world, p *process) {
				const secret = "#cloud-config\npassword: planted\n"
				w.must(w.AddCustomizationSpec("linux", false))
				a := p.shaped(0, v1alpha1.VmGroupSpec{})
				a.Details().UserData = secret
				p.do(a)
				w.must(w.CloneVM("web-0", "/DC0/vm", "former"))
				w.must(w.SetExtraConfig("former", guest.IgnitionKey, "the former's"))
				w.must(w.SetExtraConfig("former", guest.OwnMetadataKey, ""))
				w.must(w.SetExtraConfig("former", library.DeployedKey, "{}"))
				if c.strip != nil {
					c.strip(w)
				}
				w.must(w.ToTemplate("former"))
				ref, err := w.Find("/DC0/vm/former")
				w.must(err)
				b := p.shaped(1, c.spec)
				changeArgs(&b, func(of *plan.CloneArgs) { of.Template, of.Details.UserData = ref.Value, c.own })
				p.do(b)
				d, err := w.Details("web-1")
				w.must(err)
				set := map[string]bool{guest.UserDataKey: c.own != "" && !c.own.IsIgnition() || c.keeps, guest.IgnitionKey: c.own.IsIgnition() || c.keeps,
					guest.MetadataKey: c.spec.CustomizationSpec == "", guest.OwnMetadataKey: c.spec.CustomizationSpec != "", library.DeployedKey: false}
				for key, want := range set {
					if (d.ExtraConfig[key] != "") != want {
						t.Errorf("web-1 has the %s %q; want one: %t", key, d.ExtraConfig[key], want)
					}
				}
				former, _ := plan.EncodeUserData(secret)
				if d.ExtraConfig[guest.UserDataKey] == former && !c.keeps {
					t.Error("web-1 has the user data of the member that its template was made from")
				}
			})
		})
	}
}

func TestOnlyMembersConfiguredByGuestinfoAreClonedWithoutVAppProperties(t *testing.T) {
	inPlace(t, vcsim.Config{}, func(t *testing.T, w *world, p *process) {
		w.must(w.AddCustomizationSpec("linux", false))
		ref, err := w.AddVM("/DC0/vm", "ova")
		w.must(err)
		w.must(w.SetVAppProperties("ova"))
		w.must(w.ToTemplate("ova"))
		networks := []v1alpha1.Network{{Network: "VM Network"}}
		for i, c := range []struct {
			spec     v1alpha1.VmGroupSpec
			userData plan.Sensitive
			keeps    bool
		}{
			{userData: "#cloud-config"},
			{spec: v1alpha1.VmGroupSpec{Networks: networks}},
			{}, // its host name and instance-id are in guestinfo, too
			{spec: v1alpha1.VmGroupSpec{Networks: networks, CustomizationSpec: "linux"}, keeps: true},
		} {
			a := p.shaped(int32(i), c.spec)
			changeArgs(&a, func(of *plan.CloneArgs) { of.Template, of.Details.UserData = ref.Value, c.userData })
			p.do(a)
			d, err := w.Details(a.Key)
			w.must(err)
			if (d.Config.VAppConfig != nil) != c.keeps {
				t.Errorf("the clone %d has vApp properties: %t; want %t", i, d.Config.VAppConfig != nil, c.keeps)
			}
		}
	})
}

func TestNoFailureOfACloneShowsItsUserData(t *testing.T) {
	inPlace(t, vcsim.Config{}, func(t *testing.T, w *world, p *process) {
		const secret = "planted-secret, and more that only the guest can know"
		value, _ := plan.EncodeUserData(secret)
		echo := func(text string) vim.BaseMethodFault { // a fault may repeat what it is about
			f := &vim.InvalidArgument{InvalidProperty: text}
			f.FaultMessage = []vim.LocalizableMessage{{Key: "k", Message: "no " + text, Arg: []vim.KeyAnyValue{{Key: "1", Value: text}}}}
			f.FaultCause = &vim.LocalizedMethodFault{Fault: &vim.SystemError{Reason: text}, LocalizedMessage: "because of " + text}
			return f
		}
		for i, fault := range []vim.BaseMethodFault{&vim.InvalidArgument{InvalidProperty: "spec.config.extraConfig"}, &vim.SystemError{Reason: "odd"}, &vim.NotSupported{},
			echo(value), echo("<value>" + value + "</value>"), echo(secret), echo(value[10:50]), &vim.SystemError{Reason: value}} {
			w.FailTask(vcsim.Clone, nil, fault, 1)
			a := p.shaped(int32(i), v1alpha1.VmGroupSpec{})
			a.Details().UserData = secret
			err := p.Do(t.Context(), web, a)
			if err == nil {
				t.Fatal("the clone succeeded although its task was to fail")
			}
			for _, text := range []string{err.Error(), fmt.Sprintf("%+v", vctest.AsError(err)), fmt.Sprintf("%+v", a)} {
				if strings.Contains(text, "planted-secret") || strings.Contains(text, value[10:50]) {
					t.Errorf("a text shows the user data: %s", text)
				}
			}
		}
	})
}
