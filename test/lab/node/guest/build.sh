# Makes the disk of guests in the folder $1 from its folders root, of Debian's packages, and rootfs, of more files. $2 is the root
# folder of nodes, $3 is kubelet, and $4 an archive of container images. The disk boots from the BIOS, as KubeVirt's guests do by
# default.
set -eu
root=$1/root
cp --recursive "$1/rootfs/." "$root"
install -D --mode=755 "$3" "$root/usr/bin/kubelet"
install -D --mode=644 "$4" "$root/usr/share/lab/images.tar"

# From containerd's default configuration to Debian's folder.
mkdir -p "$root/opt/cni" "$root/boot/grub" "$root/etc/systemd/system/multi-user.target.wants"
ln -s /usr/lib/cni "$root/opt/cni/bin"
units=$root/etc/systemd/system
ln -s ../lab-images.service "$units/multi-user.target.wants/"
for unit in apt-daily.timer apt-daily-upgrade.timer e2scrub_all.timer fstrim.timer dpkg-db-backup.timer; do
  ln -sf /dev/null "$units/$unit"
done
# systemd makes the machine ID from the firmware's UUID, and cloud-init sets the host name.
: > "$root/etc/machine-id"
rm -f "$root/etc/hostname"

# Some arguments save what an emulated processor is slow at; the console is the serial port.
version=$(basename "$root"/boot/vmlinuz-*)
version=${version#vmlinuz-}
cat > "$root/boot/grub/grub.cfg" <<END
linux /boot/vmlinuz-$version root=LABEL=root ro console=ttyS0 mitigations=off audit=0 apparmor=0 quiet
initrd /boot/initrd.img-$version
boot
END

# Seen from here, the folder /mnt of the image itself is empty.
mount --bind "$1" "$root/mnt"
chroot "$root" sh -eu <<'END'
cd /mnt
truncate --size=3G disk.raw
printf 'label: dos\n2048,,L,*\n' | sfdisk --quiet disk.raw
# GRUB cannot read some features of ext4.
mke2fs -q -t ext4 -L root -O ^metadata_csum_seed,^orphan_file -d root -E offset=1048576 disk.raw $((3 * 1024 * 1024 - 1024))k
# The first sector, and the gap before the partition.
grub-mkimage -O i386-pc -p '(hd0,msdos1)/boot/grub' -o core.img biosdisk part_msdos ext2 linux normal configfile boot
dd status=none conv=notrunc bs=440 count=1 if=/usr/lib/grub/i386-pc/boot.img of=disk.raw
dd status=none conv=notrunc bs=512 seek=1 if=core.img of=disk.raw
END
mount --bind "$1" "$2/mnt"
chroot "$2" qemu-img convert -O qcow2 /mnt/disk.raw /mnt/disk.qcow2
