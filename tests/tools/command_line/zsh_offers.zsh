# zsh_offers.zsh BEGINNING: prints the line that zsh makes of its beginning when Tab is pressed, then what it offers, a
# word a line. The completion script is the file _weft of the current folder.
emulate -R zsh
zmodload zsh/zpty
rm -f offered completed
zpty -b shell "PS1= TERM=dumb zsh -f -i"
zpty -w shell "source ${(q)0:h}/zsh_widget.zsh"
zpty -w -n shell "$1"$'\t'
said=""
repeat 400; do
  [[ -e completed ]] && break
  zpty -r -t shell more && said+=$more
  sleep 0.05
done
zpty -d shell
if [[ ! -e completed ]]; then
  print -u2 "zsh completes nothing in 20 s; it says: $said"
  exit 1
fi
cat completed
[[ ! -e offered ]] || sort -u offered
