package disks

import "testing"

func TestADirectoryNamesItsVMOnVMFSAndNotOnVSANOrVVols(t *testing.T) {
	t.Parallel()
	for vmx, named := range map[string]bool{
		"[vmfs] web-0/web-0.vmx":                                         true,
		"[vmfs] web-0_1/web-0.vmx":                                       true, // the directory web-0 belongs to another VM
		"[vmfs] web-0_1/web-0_1.vmx":                                     true,
		"[nfs] vms/web-0/web-0.vmx":                                      true,
		"[vsanDatastore] d04c1d65-a3ca-5bde-c0f9-068cdd1d8254/web-0.vmx": false, // from a recording
		"[vvols] naa.600A098000C2A5F900005B3E5F1C2D3E/web-0.vmx":         false,
		"[vvols] rfc4122.f1a5b2c3-9d8e-4f70-8a61-0123456789ab/web-0.vmx": false,
		"[vmfs] a-former-name/web-0.vmx":                                 false,
		"[vmfs] web-0.vmx":                                               false,
		"[vmfs]":                                                         false,
		"":                                                               false,
		"/vmfs/volumes/5f0c/web-0/web-0.vmx":                             false,
		"[vmfs] .vmx":                                                    false,
	} {
		if NamedHome(vmx) != named {
			t.Errorf("%q: %t", vmx, !named)
		}
	}
}
