package session

import (
	"testing"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

func TestAPropertyOfAnotherTypeThanAskedForIsAbsent(t *testing.T) {
	eight := int32(8)
	o := Object{props: []types.DynamicProperty{{Name: "name", Val: "web-0"}, {Name: "cpu", Val: &eight}, {Name: "none", Val: (*int32)(nil)},
		{Name: OptionPath("key"), Val: types.OptionValue{Key: "key", Value: "text"}}}}
	name, text, other := "", "", ""
	cpu, none, named := int32(0), int32(-1), int32(-1)
	all := Properties{To("name", &name), To("cpu", &cpu), To("none", &none), To("name", &named), To("gone", &other), Option("key", &text)}
	o.Into(all)
	if name != "web-0" || cpu != 8 || text != "text" {
		t.Errorf("the values are %q, %d and %q, want web-0, 8 and text", name, cpu, text)
	}
	if none != -1 || named != -1 || other != "" {
		t.Errorf("the fields of a nil pointer, of a text as a number and of an absent property are %d, %d and %q, want them as they were", none, named, other)
	}
	if paths := all.Paths(); len(paths) != len(all) || paths[5] != `config.extraConfig["key"]` {
		t.Errorf("the paths are %v", paths)
	}
}

func TestDevicesOfATypeThatGovmomiDoesNotKnowAreLeftOut(t *testing.T) {
	disk := &types.VirtualDisk{}
	o := Object{props: []types.DynamicProperty{{Name: "config.hardware.device", Val: types.ArrayOfVirtualDevice{VirtualDevice: []types.BaseVirtualDevice{nil, disk, nil}}}}}
	for range 2 {
		var all []types.BaseVirtualDevice
		if o.Into(Properties{Devices(&all)}); len(all) != 1 || all[0] != disk {
			t.Errorf("the devices are %v, want the disk alone", all)
		}
	}
}

func TestAnObjectThatWasReadIsDistinguishedFromOneThatIsGone(t *testing.T) {
	inABubble(t, func(t *testing.T, l *lab) {
		vm, err := l.AddVM("/DC0/vm", "db-a")
		l.must(err)
		s, err := l.client(l.config()).Session(t.Context())
		l.must(err)
		var name, id string
		o, err := ReadProps(t.Context(), s, vm, To("name", &name), To("config.instanceUuid", &id))
		if err != nil || !o.Found || o.Withheld || name != "db-a" || id == "" {
			t.Errorf("the object is %+v, the error %v, want it found with both properties", o, err)
		}
		l.must(l.Destroy("db-a"))
		if o, err = ReadProps(t.Context(), s, vm, To("name", &name)); vcfault.MissingObject(err) != vm || o.Found {
			t.Errorf("the object is %+v, the error %v, want it missing", o, err)
		}
	})
}
