package session

import (
	"testing"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

func TestAPropertyOfAnotherTypeThanAskedForIsAbsent(t *testing.T) {
	eight := int32(8)
	o := Object{props: map[string]types.AnyType{"name": "web-0", "cpu": &eight, "none": (*int32)(nil),
		`config.extraConfig["key"]`: types.OptionValue{Key: "key", Value: "text"}}}
	if Prop[string](o, "name") != "web-0" || Prop[int32](o, "cpu") != 8 || Prop[int32](o, "none") != 0 || Prop[int32](o, "name") != 0 || Prop[string](o, "gone") != "" {
		t.Errorf("of %+v, a property is not what it is, or one that is absent or of another type is not zero", o)
	}
	if _, is := LookUp[int32](o, "none"); is {
		t.Error("a nil pointer counts as a value")
	}
	if Only[types.OptionValue](o).Value != "text" || Only[types.OptionValue](Object{}).Value != nil {
		t.Errorf("of %+v, the only OptionValue is %+v, want text; of an empty object, want none", o, Only[types.OptionValue](o))
	}
}

func TestDevicesOfATypeThatGovmomiDoesNotKnowAreLeftOut(t *testing.T) {
	disk := &types.VirtualDisk{}
	o := Object{props: map[string]types.AnyType{"config.hardware.device": types.ArrayOfVirtualDevice{VirtualDevice: []types.BaseVirtualDevice{nil, disk, nil}}}}
	for range 2 {
		if all := Devices(o); len(all) != 1 || all[0] != disk {
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
		o, err := ReadProps(t.Context(), s, vm, "name", "config.instanceUuid")
		if err != nil || !o.Found || o.Withheld || Prop[string](o, "name") != "db-a" || Prop[string](o, "config.instanceUuid") == "" {
			t.Errorf("the object is %+v, the error %v, want it found with both properties", o, err)
		}
		l.must(l.Destroy("db-a"))
		if o, err = ReadProps(t.Context(), s, vm, "name"); vcfault.MissingObject(err) != vm || o.Found {
			t.Errorf("the object is %+v, the error %v, want it missing", o, err)
		}
	})
}
